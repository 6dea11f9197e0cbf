"""AMD's GPUs, read from trees like the kernel driver's."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gkm.gpus.amd import amd_gpus
from gkm.gpus.errors import GPUDetectionError
from gkm.gpus.model import GPU
from support.topology import BANK, CPU, MI210, MI300X, RX7900XTX, write_device, write_node


@pytest.fixture
def rocm(tmp_path: Path) -> Path:
    (tmp_path / "rocm/.info").mkdir(parents=True)
    (tmp_path / "rocm/.info/version").write_text("7.0.1-42\n")
    return tmp_path / "rocm"


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    (tmp_path / "sys").mkdir()
    return tmp_path / "sys"


def test_a_host_with_three_kinds_of_gpu(sysfs: Path, rocm: Path) -> None:
    write_node(sysfs, 0, CPU)
    write_node(sysfs, 1, CPU)
    # Node 10 comes after node 2 although its name sorts before.
    write_node(sysfs, 10, RX7900XTX)
    write_node(sysfs, 2, MI300X, BANK)
    write_node(sysfs, 3, MI210, {"heap_type": 0, "size_in_bytes": 5}, BANK | {"size_in_bytes": 7}, BANK)
    write_device(sysfs, "0000:47:00.0", numa_node="1", revision="0x00")
    write_device(sysfs, "0000:03:00.0", numa_node="-1", revision="0xc8")
    (sysfs / "module/amdgpu").mkdir(parents=True)
    (sysfs / "module/amdgpu/version").write_text("6.12.12\n")
    assert amd_gpus(sysfs, rocm) == (
        GPU(
            index=0,
            uuid="3cbe002bd3b6313d",
            vendor="amd",
            backend="hip",
            product="AMD Instinct MI300X",
            arch="gfx942",
            warp_size=64,
            memory_bytes=206141652992,
            driver_version="6.12.12",
            runtime_version="7.0.1-42",
            numa_node=1,
            pci_address="0000:47:00.0",
        ),
        GPU(
            index=1,
            uuid="0000000000005f3a",
            vendor="amd",
            backend="hip",
            product="AMD Instinct MI210",
            arch="gfx90a",
            warp_size=64,
            memory_bytes=206141652999,
            driver_version="6.12.12",
            runtime_version="7.0.1-42",
            pci_address="0000:43:00.0",
        ),
        GPU(
            index=2,
            uuid="pci-0000:03:00.0",
            vendor="amd",
            backend="hip",
            product="AMD Radeon RX 7900 XTX",
            arch="gfx1100",
            warp_size=32,
            driver_version="6.12.12",
            runtime_version="7.0.1-42",
            pci_address="0000:03:00.0",
        ),
    )


def test_without_the_driver_there_are_no_gpus(sysfs: Path, rocm: Path) -> None:
    assert amd_gpus(sysfs, rocm) == ()


def test_a_host_with_cpus_alone_in_the_topology_has_no_gpus(sysfs: Path, rocm: Path) -> None:
    write_node(sysfs, 0, CPU)
    assert amd_gpus(sysfs, rocm) == ()


@pytest.mark.parametrize(
    ("version", "arch"),
    [(90006, "gfx906"), (90500, "gfx950"), (100300, "gfx1030"), (110501, "gfx1151"), (120001, "gfx1201")],
)
def test_the_target_version_is_read_as_the_kernel_writes_it(
    sysfs: Path, rocm: Path, version: int, arch: str
) -> None:
    write_node(sysfs, 1, MI300X | {"gfx_target_version": version})
    assert [gpu.arch for gpu in amd_gpus(sysfs, rocm)] == [arch]


def test_a_product_that_the_table_lacks_is_named_by_the_card_or_not_at_all(sysfs: Path, rocm: Path) -> None:
    write_node(sysfs, 1, MI300X | {"device_id": 0x7FFF})
    assert [gpu.product for gpu in amd_gpus(sysfs, rocm)] == [""]
    write_device(sysfs, "0000:47:00.0", product_name="AMD Instinct Future")
    assert [gpu.product for gpu in amd_gpus(sysfs, rocm)] == ["AMD Instinct Future"]


def test_partitions_with_one_unique_id_have_identifiers_of_their_own(sysfs: Path, rocm: Path) -> None:
    for number in (1, 2, 3):
        write_node(sysfs, number, MI300X | {"location_id": 18176 + number})
    found = [(gpu.uuid, gpu.pci_address) for gpu in amd_gpus(sysfs, rocm)]
    assert found == [
        ("3cbe002bd3b6313d", "0000:47:00.1"),
        ("3cbe002bd3b6313d-1", "0000:47:00.2"),
        ("3cbe002bd3b6313d-2", "0000:47:00.3"),
    ]


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ("wave_front_size sixty-four\n", "invalid literal"),
        ("wave_front_size\n", "not enough values"),
        ("\xff\x00\n", "cannot be read"),
        ("wave_front_size 64\n", "gfx_target_version"),
        ("", "gfx_target_version"),
    ],
)
def test_a_topology_that_makes_no_sense_is_an_error_with_its_cause(
    sysfs: Path, rocm: Path, properties: str, words: str
) -> None:
    node = write_node(sysfs, 1, MI300X)
    (node / "properties").write_bytes(properties.encode("latin-1"))
    with pytest.raises(GPUDetectionError, match=words) as caught:
        amd_gpus(sysfs, rocm)
    assert caught.value.reason == "GPUDetection"
    assert caught.value.__cause__ is not None


def test_a_topology_that_cannot_be_read_is_an_error(sysfs: Path, rocm: Path) -> None:
    node = write_node(sysfs, 1, MI300X)
    (node / "properties").unlink()
    with pytest.raises(GPUDetectionError, match="properties"):
        amd_gpus(sysfs, rocm)
    nodes = sysfs / "class/kfd/kfd/topology/nodes"
    nodes.rename(nodes.with_name("elsewhere"))
    nodes.write_text("no directory")
    with pytest.raises(GPUDetectionError, match="Not a directory"):
        amd_gpus(sysfs, rocm)


@contextlib.contextmanager
def ordinary_user() -> Iterator[None]:
    """Nobody's rights over files for a while, where the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("file", ["gpu_id", "properties"])
def test_a_gpu_that_the_container_may_not_use_is_left_out(rocm: Path, file: str) -> None:
    # Not below tmp_path, which pytest closes to other users.
    with tempfile.TemporaryDirectory() as name:
        sysfs = Path(name)
        sysfs.chmod(0o755)
        (write_node(sysfs, 1, MI300X) / file).chmod(0)
        write_node(sysfs, 2, MI210)
        with ordinary_user():
            found = amd_gpus(sysfs, rocm)
    assert [(gpu.index, gpu.product) for gpu in found] == [(0, "AMD Instinct MI210")]
