"""A tree like the sysfs of a host with AMD GPUs, with the facts that real hosts were seen to report."""

from pathlib import Path

CPU = {"cpu_cores_count": 96, "simd_count": 0, "wave_front_size": 0, "gfx_target_version": 0}
MI300X = {
    "cpu_cores_count": 0,
    "simd_count": 1216,
    "mem_banks_count": 1,
    "wave_front_size": 64,
    "gfx_target_version": 90402,
    "vendor_id": 4098,
    "device_id": 0x74A1,
    "location_id": 18176,
    "domain": 0,
    "drm_render_minor": 128,
    "hive_id": 10631624818852212319,
    "local_mem_size": 0,
    "unique_id": 0x3CBE002BD3B6313D,
    "num_xcc": 8,
}
MI210 = MI300X | {
    "gfx_target_version": 90010,
    "device_id": 0x740F,
    "unique_id": 0x5F3A,
    "location_id": 0x4300,
}
RX7900XTX = {
    "simd_count": 192,
    "wave_front_size": 32,
    "gfx_target_version": 110000,
    "vendor_id": 4098,
    "device_id": 0x744C,
    "location_id": 0x0300,
    "domain": 0,
    "unique_id": 0,
}
BANK = {"heap_type": 1, "size_in_bytes": 206141652992, "flags": 0, "width": 8192, "mem_clk_max": 1300}


def write_node(sysfs: Path, number: int, properties: dict[str, int], *banks: dict[str, int]) -> Path:
    """Write node `number` of the topology; a GPU where its properties have SIMD units."""
    node = sysfs / f"class/kfd/kfd/topology/nodes/{number}"
    node.mkdir(parents=True)
    gpu_id = 20000 + number if properties.get("simd_count") else 0
    (node / "gpu_id").write_text(f"{gpu_id}\n")
    (node / "name").write_text("ip discovery\n" if gpu_id else "\n")
    write_facts(node / "properties", properties)
    for index, bank in enumerate(banks):
        write_facts(node / f"mem_banks/{index}/properties", bank)
    return node


def write_device(sysfs: Path, address: str, **files: str) -> None:
    """Write the files of the PCI device at `address`."""
    device = sysfs / "bus/pci/devices" / address
    device.mkdir(parents=True)
    for name, text in files.items():
        (device / name).write_text(text + "\n")


def write_facts(path: Path, facts: dict[str, int]) -> None:
    """Write one ``name number`` a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name} {value}\n" for name, value in facts.items()))
