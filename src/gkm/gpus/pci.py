"""What sysfs tells about a PCI device (Linux, Documentation/ABI/testing/sysfs-bus-pci)."""

from pathlib import Path


def numa_node(sysfs: Path, address: str) -> int | None:
    """The NUMA node next to the device at `address`; None where the platform does not tell (-1, no file)."""
    node = _number(sysfs, address, "numa_node")
    return node if node is not None and node >= 0 else None


def revision(sysfs: Path, address: str) -> int | None:
    """The revision byte of the device at `address`, or None where it cannot be read."""
    return _number(sysfs, address, "revision")


def _number(sysfs: Path, address: str, name: str) -> int | None:
    try:
        return int((sysfs / "bus/pci/devices" / address / name).read_text(), 0)
    except (OSError, ValueError):
        # These facts decide nothing: a host that hides them still has its GPUs.
        return None
