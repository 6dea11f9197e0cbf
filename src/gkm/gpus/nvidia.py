"""NVIDIA's GPUs of this host, asked of the driver through NVML (NVIDIA's NVML API reference guide)."""

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from gkm.gpus.errors import GPUDetectionError
from gkm.gpus.model import GPU
from gkm.gpus.pci import numa_node

T = TypeVar("T")

_LIBRARY = "libnvidia-ml.so.1"
_ADVICE = "run `nvidia-smi` on this host: it should list the GPUs"


def nvidia_gpus(sysfs: Path = Path("/sys")) -> tuple[GPU, ...]:
    """The GPUs that the NVIDIA driver shows to this process, indexed from 0 in NVML's order (by PCI address).

    Without the driver's library, or with the library but no kernel module, there are none. GPUs that a
    container may not use are left out. MIG instances are not GPUs of their own here: they run what their
    GPU runs.

    Raises:
        GPUDetectionError: the driver is there but broken: the library does not load, its version is not the
            kernel module's, a GPU fell off the bus …
    """
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError as error:
        # pynvml reports any failure to load as "not found", so it is looked at here. dlopen has no error
        # number; both C libraries name the file that they did not find.
        if _LIBRARY in str(error) and "No such file" in str(error):
            return ()
        raise GPUDetectionError(
            f"the NVIDIA driver's library does not load: {error}; reinstall the driver"
        ) from error
    # 25 ms that hosts without the driver need not spend.
    import pynvml  # noqa: PLC0415

    try:
        return _list(pynvml, sysfs)
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_DRIVER_NOT_LOADED:
            return ()
        said = str(error).rstrip(".")
        raise GPUDetectionError(f"the NVIDIA driver reports: {said}; {_ADVICE}") from error
    except UnicodeError as error:
        raise GPUDetectionError(f"the NVIDIA driver reports a name that is no text; {_ADVICE}") from error


def _list(nvml: ModuleType, sysfs: Path) -> tuple[GPU, ...]:
    nvml.nvmlInit()
    try:
        driver = nvml.nvmlSystemGetDriverVersion()
        runtime = _cuda_version(_optional(nvml, nvml.nvmlSystemGetCudaDriverVersion_v2))
        handles = enumerate(_handles(nvml))
        return tuple(_gpu(nvml, sysfs, index, handle, driver, runtime) for index, handle in handles)
    finally:
        nvml.nvmlShutdown()


def _handles(nvml: ModuleType) -> Iterator[object]:
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            yield nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as error:
            # The count includes GPUs that the container's device cgroup hides (nvmlDeviceGetCount_v2).
            if error.value != nvml.NVML_ERROR_NO_PERMISSION:
                raise


def _gpu(nvml: ModuleType, sysfs: Path, index: int, handle: object, driver: str, runtime: str | None) -> GPU:
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    memory = _optional(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total)
    bus_id = _optional(nvml, lambda: nvml.nvmlDeviceGetPciInfo(handle).busId)
    address = _address(bus_id) if bus_id else None
    return GPU(
        index=index,
        uuid=nvml.nvmlDeviceGetUUID(handle),
        vendor="nvidia",
        backend="cuda",
        product=nvml.nvmlDeviceGetName(handle),
        arch=f"sm_{major}{minor}",
        warp_size=32,
        compute_capability=f"{major}.{minor}",
        memory_bytes=memory,
        driver_version=driver,
        runtime_version=runtime,
        numa_node=numa_node(sysfs, address) if address else None,
        pci_address=address,
    )


def _optional(nvml: ModuleType, ask: Callable[[], T]) -> T | None:
    """The answer, or None where this GPU or driver has none (unified memory, old drivers)."""
    try:
        return ask()
    except nvml.NVMLError as error:
        if error.value in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND):
            return None
        raise


def _cuda_version(number: int | None) -> str | None:
    """``12.9`` of 12090 (nvmlSystemGetCudaDriverVersion_v2: 1000 times major plus 10 times minor)."""
    return f"{number // 1000}.{number % 1000 // 10}" if number else None


def _address(bus_id: str | bytes) -> str:
    """Sysfs' ``0000:3b:00.0`` of NVML's ``00000000:3B:00.0``, whose domain has eight digits."""
    text = bus_id.decode("ascii") if isinstance(bus_id, bytes) else bus_id
    domain, _, rest = text.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"
