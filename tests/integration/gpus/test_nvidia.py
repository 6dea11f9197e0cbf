"""NVIDIA detection against a real shared library that plays the driver, healthy and broken.

The library is compiled here and found by the dynamic linker as the real one would be, each time by a process
of its own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.parts import need_program
from support.topology import write_device

DETECT = """
import pathlib, sys
import msgspec
from gkm.gpus.errors import GPUDetectionError
from gkm.gpus.nvidia import nvidia_gpus
try:
    found = nvidia_gpus(pathlib.Path(sys.argv[1]))
except GPUDetectionError as error:
    sys.exit(f"{error.reason}: {error} | {error.__cause__!r}")
print(msgspec.json.encode(found).decode())
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


def build(directory: Path, *options: str) -> Path:
    compiler = need_program("cc", "gcc")
    source = Path(__file__).with_name("nvml.c")
    target = directory / "libnvidia-ml.so.1"
    command = [compiler, "-Wall", "-Werror", "-shared", "-fPIC", *options, "-o", str(target), str(source)]
    subprocess.run(command, check=True)
    return directory


def detect(directory: Path, sysfs: Path, fault: str = "") -> subprocess.CompletedProcess[str]:
    environ = os.environ | {"LD_LIBRARY_PATH": str(directory), "NVML_FAULT": fault}
    command = [sys.executable, "-c", DETECT, str(sysfs)]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def gpus(directory: Path, sysfs: Path, fault: str = "") -> list[dict[str, object]]:
    done = detect(directory, sysfs, fault)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def test_a_healthy_driver_tells_all_facts(library: Path, tmp_path: Path) -> None:
    write_device(tmp_path, "0000:3b:00.0", numa_node="1")
    assert gpus(library, tmp_path) == [
        {
            "index": 0,
            "uuid": "GPU-00000000-0000-0000-0000-000000000001",
            "vendor": "nvidia",
            "backend": "cuda",
            "product": "NVIDIA H100 80GB HBM3",
            "arch": "sm_90",
            "warpSize": 32,
            "computeCapability": "9.0",
            "memoryBytes": 85520809984,
            "driverVersion": "580.95.05",
            "runtimeVersion": "13.0",
            "numaNode": 1,
            "pciAddress": "0000:3b:00.0",
        },
        {
            "index": 1,
            "uuid": "GPU-00000000-0000-0000-0000-000000000002",
            "vendor": "nvidia",
            "backend": "cuda",
            "product": "NVIDIA GB10",
            "arch": "sm_121",
            "warpSize": 32,
            "computeCapability": "12.1",
            "driverVersion": "580.95.05",
            "runtimeVersion": "13.0",
            "pciAddress": "000f:3b:00.0",
        },
    ]


def test_a_gpu_that_the_container_may_not_use_is_left_out(library: Path, tmp_path: Path) -> None:
    (only,) = gpus(library, tmp_path, "hidden")
    assert (only["index"], only["product"]) == (0, "NVIDIA GB10")


def test_an_old_driver_without_a_function_lacks_that_fact_alone(tmp_path: Path) -> None:
    found = gpus(build(tmp_path, "-DOLD"), tmp_path)
    assert len(found) == 2
    assert "runtimeVersion" not in found[0]


@pytest.mark.parametrize("fault", ["not-loaded", "none"])
def test_no_driver_and_no_gpus_are_no_error(library: Path, tmp_path: Path, fault: str) -> None:
    assert gpus(library, tmp_path, fault) == []


def test_a_host_without_the_library_has_no_gpus(tmp_path: Path) -> None:
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("this host has an NVIDIA driver of its own")
    assert gpus(tmp_path, tmp_path) == []


@pytest.mark.parametrize(
    ("fault", "words"),
    [("mismatch", "version mismatch; run"), ("lost", "GPU is lost"), ("no-text", "no text")],
)
def test_a_broken_driver_is_an_error_with_its_cause(
    library: Path, tmp_path: Path, fault: str, words: str
) -> None:
    done = detect(library, tmp_path, fault)
    assert done.returncode == 1
    assert done.stderr.startswith("GPUDetection: the NVIDIA driver reports")
    assert words in done.stderr
    assert "nvidia-smi" in done.stderr
    assert "| None" not in done.stderr


def test_the_driver_is_left_in_order_after_an_error(library: Path, tmp_path: Path) -> None:
    done = detect(library, tmp_path, "tell-shutdown")
    assert done.returncode == 1
    assert done.stdout == "shut down\n"


@pytest.mark.parametrize("content", [b"", b"not a library", b"\x7fELF\x01\x01\x01"])
def test_a_library_that_does_not_load_is_a_broken_driver(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes(content)
    done = detect(tmp_path, tmp_path)
    assert done.returncode == 1
    assert "library does not load" in done.stderr
    assert "reinstall the driver" in done.stderr
