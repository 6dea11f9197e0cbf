"""AMD's GPUs of this host, read from the kernel driver's topology; no ROCm library is needed.

``/sys/class/kfd/kfd/topology/nodes/N`` describes node N, CPUs and GPUs alike (Linux,
drivers/gpu/drm/amd/amdkfd/kfd_topology.c): ``gpu_id`` is 0 for CPUs, ``properties`` holds one number a line.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from gkm.gpus.errors import GPUDetectionError
from gkm.gpus.model import GPU
from gkm.gpus.pci import numa_node, revision
from gkm.gpus.products import amd_product

_PUBLIC, _PRIVATE = 1, 2
"""Kinds of memory bank that are the GPU's own: with and without access for the host."""


def amd_gpus(sysfs: Path = Path("/sys"), rocm: Path = Path("/opt/rocm")) -> tuple[GPU, ...]:
    """The GPUs that the amdgpu driver shows to this process, indexed from 0 in the topology's order.

    Without the driver there are none. GPUs that a container may not use are left out. A GPU split into
    partitions counts once per partition, as ROCm and Triton see it.

    Raises:
        GPUDetectionError: the topology is there but cannot be read or understood.
    """
    nodes = sysfs / "class/kfd/kfd/topology/nodes"
    try:
        present = [node for node in nodes.iterdir() if node.name.isdigit()]
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise _unreadable(nodes, error) from error
    try:
        described = [
            (node, properties)
            for node in sorted(present, key=lambda node: int(node.name))
            if (properties := _properties(node)) is not None
        ]
    except (OSError, ValueError) as error:
        raise _unreadable(nodes, error) from error
    driver = _line(sysfs / "module/amdgpu/version")
    runtime = _line(rocm / ".info/version")
    gpus = (
        _gpu(sysfs, index, path, properties, driver, runtime)
        for index, (path, properties) in enumerate(described)
    )
    return tuple(_distinct(gpus))


def _unreadable(nodes: Path, error: Exception) -> GPUDetectionError:
    return GPUDetectionError(
        f"the amdgpu driver's topology in {nodes} cannot be read: {error}; look into the kernel's log"
    )


def _properties(node: Path) -> dict[str, int] | None:
    """The node's properties; None for a CPU, and for a GPU behind the container's device cgroup."""
    try:
        if int((node / "gpu_id").read_text()) == 0:
            return None
        text = (node / "properties").read_text()
    except PermissionError:
        # kfd_devcgroup_check_permission: EPERM for a GPU whose render device the cgroup denies.
        return None
    pairs = (line.split() for line in text.splitlines())
    return {name: int(value) for name, value in pairs}


def _gpu(
    sysfs: Path,
    index: int,
    node: Path,
    properties: Mapping[str, int],
    driver: str | None,
    runtime: str | None,
) -> GPU:
    try:
        arch = _arch(properties["gfx_target_version"])
        warp_size = properties["wave_front_size"]
        address = _address(properties["domain"], properties["location_id"])
        device = properties["device_id"]
    except KeyError as error:
        raise GPUDetectionError(
            f"the amdgpu driver tells no {error.args[0]} in {node}/properties; update the driver"
        ) from error
    product = amd_product(device, revision(sysfs, address))
    unique = properties.get("unique_id", 0)
    return GPU(
        index=index,
        # Consumer GPUs have no unique_id; their place on the bus is what tells them apart.
        uuid=f"{unique:016x}" if unique else f"pci-{address}",
        vendor="amd",
        backend="hip",
        product=product.name if product else _line(_device(sysfs, address) / "product_name") or "",
        arch=arch,
        warp_size=warp_size,
        memory_bytes=_memory(node),
        driver_version=driver,
        runtime_version=runtime,
        numa_node=numa_node(sysfs, address),
        pci_address=address,
    )


def _arch(version: int) -> str:
    """``gfx942`` of 90402, ``gfx90a`` of 90010: major, minor, stepping in pairs of digits, the last in hex.

    libhsakmt and KFD's ``gfx_target_version`` share this form (kfd_device.c).
    """
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _address(domain: int, location: int) -> str:
    """``0000:3b:00.0`` of KFD's location_id: bus in the high byte, device and function as PCI packs them."""
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"


def _memory(node: Path) -> int | None:
    """Bytes of the GPU's own memory; None where no bank is listed (an APU without any)."""
    total = 0
    for bank in node.glob("mem_banks/*/properties"):
        try:
            facts = dict(line.split() for line in bank.read_text().splitlines())
            if int(facts["heap_type"]) in (_PUBLIC, _PRIVATE):
                total += int(facts["size_in_bytes"])
        except (OSError, ValueError, KeyError):
            return None
    return total or None


def _distinct(gpus: Iterable[GPU]) -> Iterable[GPU]:
    """Give partitions, which some drivers report with their GPU's unique_id, identifiers of their own."""
    seen: dict[str, int] = {}
    for gpu in gpus:
        count = seen[gpu.uuid] = seen.get(gpu.uuid, 0) + 1
        yield gpu if count == 1 else msgspec.structs.replace(gpu, uuid=f"{gpu.uuid}-{count - 1}")


def _device(sysfs: Path, address: str) -> Path:
    return sysfs / "bus/pci/devices" / address


def _line(path: Path) -> str | None:
    """The text of a one-line file, or None where there is none."""
    try:
        return path.read_text().strip() or None
    except (OSError, UnicodeError):
        return None
