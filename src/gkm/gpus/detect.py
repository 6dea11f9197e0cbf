"""All accelerators of this host, or the simulated ones in their place."""

import os
from collections.abc import Mapping

import msgspec

from gkm.gpus.amd import amd_gpus
from gkm.gpus.model import GPU
from gkm.gpus.nvidia import nvidia_gpus
from gkm.gpus.simulated import parse_simulated

SIMULATED = "GKM_SIMULATED_GPUS"
"""The environment variable that takes the place of the host's GPUs; empty is the same as unset."""


def detect(environ: Mapping[str, str] | None = None) -> tuple[GPU, ...]:
    """The GPUs of this host, NVIDIA's first, indexed in one series from 0.

    With `SIMULATED` set in `environ` (default: the process's environment) exactly the GPUs that it describes,
    and the host is not asked. What a workload is allowed to see (``CUDA_VISIBLE_DEVICES`` …) changes nothing.

    Raises:
        GPUDetectionError: a driver is there but broken.
        UsageError: the value of `SIMULATED` describes no GPUs.
    """
    text = (os.environ if environ is None else environ).get(SIMULATED, "")
    if text.strip():
        return parse_simulated(text)
    found = (*nvidia_gpus(), *amd_gpus())
    return tuple(msgspec.structs.replace(gpu, index=index) for index, gpu in enumerate(found))
