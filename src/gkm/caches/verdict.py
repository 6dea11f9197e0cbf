"""Does a cache fit a GPU? The verdict of a cache's targets on each GPU, and what decided it.

"Fits" means that the compiler would *hit* the cache, which is narrower than that the code would run. Every
compiler known here puts the exact arch into its key. Triton's key holds the compute capability or the gfx
name (``get_current_target`` in triton/backends/{nvidia,amd}/driver.py); TorchInductor's adds the CUDA
product name, or on ROCm the gfx name (``CacheBase.get_system`` in torch/_inductor/codecache.py). So sm_80
code, which runs on sm_86, is still a miss there, and the factor says so.
"""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from gkm.caches.model import Target
from gkm.gpus.model import GPU

_CUDA = re.compile(r"sm_(\d+)(\d)([a-z]?)")


class Verdict(StrEnum):
    """The answer for one GPU. Only a known no is `INCOMPATIBLE`: it alone keeps a cache away."""

    COMPATIBLE = "Compatible"
    INCOMPATIBLE = "Incompatible"
    UNKNOWN = "Unknown"


class Reason(StrEnum):
    """Why; stable words for conditions, reports and tests."""

    MATCH = "Match"
    BACKEND_MISMATCH = "BackendMismatch"
    ARCH_MISMATCH = "ArchMismatch"
    WARP_SIZE_MISMATCH = "WarpSizeMismatch"
    PRODUCT_MISMATCH = "ProductMismatch"
    UNKNOWN_PRODUCT = "UnknownProduct"
    NO_GPU = "NoGPU"
    NO_TARGET = "NoTarget"
    NO_GPU_TARGET = "NoGPUTarget"


# How near a target came to fitting, nearest first: the nearest one's difference is what decided.
_NEARNESS = (
    Reason.MATCH,
    Reason.UNKNOWN_PRODUCT,
    Reason.PRODUCT_MISMATCH,
    Reason.WARP_SIZE_MISMATCH,
    Reason.ARCH_MISMATCH,
    Reason.BACKEND_MISMATCH,
)
_VERDICTS = {Reason.MATCH: Verdict.COMPATIBLE, Reason.UNKNOWN_PRODUCT: Verdict.UNKNOWN}


class GPUVerdict(msgspec.Struct, frozen=True, rename="camel"):
    """The verdict for one GPU of the host, or for a host without any."""

    gpu: str | None
    """The GPU's UUID; None where the verdict is about no GPU in particular."""
    product: str | None
    verdict: Verdict
    reason: Reason
    factor: str
    """The deciding comparison, for people: ``arch sm_80 (cache) ≠ sm_90 (GPU)``."""


def judge(targets: Sequence[Target], gpus: Sequence[GPU]) -> tuple[GPUVerdict, ...]:
    """One verdict per GPU, in the order of `gpus`; without GPUs one, Unknown(NoGPU), about none of them.

    One fitting target is enough. Targets for the host's CPU don't count beside targets for GPUs; a cache with
    nothing else is Unknown(NoGPUTarget), one that tells no targets Unknown(NoTarget).
    """
    if not gpus:
        return (GPUVerdict(None, None, Verdict.UNKNOWN, Reason.NO_GPU, "this host has no GPU"),)
    return tuple(_judge_one(targets, gpu) for gpu in gpus)


def overall(verdicts: Sequence[GPUVerdict]) -> GPUVerdict:
    """The verdict on the host: the first Compatible one, else the first Unknown one, else the first.

    Raises:
        ValueError: `verdicts` is empty; `judge` never returns that.
    """
    for wanted in (Verdict.COMPATIBLE, Verdict.UNKNOWN, Verdict.INCOMPATIBLE):
        for verdict in verdicts:
            if verdict.verdict is wanted:
                return verdict
    raise ValueError("no verdicts to choose from")


def _judge_one(targets: Sequence[Target], gpu: GPU) -> GPUVerdict:
    wanted = [target for target in targets if target.backend != "cpu"]
    if not wanted:
        if not targets:
            return _about(gpu, Reason.NO_TARGET, "the cache does not tell what it was compiled for")
        hosts = _listed(target.arch for target in targets)
        return _about(gpu, Reason.NO_GPU_TARGET, f"the cache holds code for {hosts} hosts, none for a GPU")
    reasons = [(_compare(target, gpu), target) for target in wanted]
    nearest = min((reason for reason, _ in reasons), key=_NEARNESS.index)
    return _about(gpu, nearest, _factor(nearest, [t for reason, t in reasons if reason is nearest], gpu))


def _about(gpu: GPU, reason: Reason, factor: str) -> GPUVerdict:
    unknown = (Reason.NO_TARGET, Reason.NO_GPU_TARGET)
    verdict = Verdict.UNKNOWN if reason in unknown else _VERDICTS.get(reason, Verdict.INCOMPATIBLE)
    return GPUVerdict(gpu.uuid, gpu.product or None, verdict, reason, factor)


def _compare(target: Target, gpu: GPU) -> Reason:
    if target.backend != gpu.backend:
        return Reason.BACKEND_MISMATCH
    if _base(target.arch) != _base(gpu.arch):
        return Reason.ARCH_MISMATCH
    # Zero means that the labels did not tell.
    if target.warp_size and target.warp_size != gpu.warp_size:
        return Reason.WARP_SIZE_MISMATCH
    # On ROCm the product in the key is the gfx name with its features, which is the arch once more.
    if target.product is None or target.backend != "cuda" or target.product == gpu.product:
        return Reason.MATCH
    return Reason.PRODUCT_MISMATCH if gpu.product else Reason.UNKNOWN_PRODUCT


def _base(arch: str) -> str:
    """`arch` without its feature suffix, as compilers ask for it: ``sm_90`` of ``sm_90a``, ``gfx942`` of
    ``gfx942:xnack-``.

    Code for ``sm_90a`` runs on 9.0 alone, and 9.0 is what the compiler compares (CUDA programming guide,
    "Feature Set Compiler Targets").
    """
    cuda = _CUDA.fullmatch(arch)
    return f"sm_{cuda[1]}{cuda[2]}" if cuda else arch.partition(":")[0]


def _factor(reason: Reason, targets: Sequence[Target], gpu: GPU) -> str:
    match reason:
        case Reason.BACKEND_MISMATCH:
            cache = _listed(f"{target.backend} {target.arch}" for target in targets)
            return f"backend {cache} (cache) ≠ {gpu.backend} {gpu.arch} (GPU)"
        case Reason.ARCH_MISMATCH:
            factor = f"arch {_listed(target.arch for target in targets)} (cache) ≠ {gpu.arch} (GPU)"
            running = _listed(target.arch for target in targets if _runs_on(target.arch, gpu.arch))
            return (
                f"{factor}; {running} code runs there, but the compiler asks for its own"
                if running
                else factor
            )
        case Reason.WARP_SIZE_MISMATCH:
            sizes = _listed(str(target.warp_size) for target in targets)
            return f"warp size {sizes} (cache) ≠ {gpu.warp_size} (GPU)"
        case Reason.PRODUCT_MISMATCH | Reason.UNKNOWN_PRODUCT:
            products = _listed(target.product or "" for target in targets)
            return f"product {products} (cache) ≠ {gpu.product or 'not told'} (GPU)"
        case _:
            return f"arch {gpu.arch}, warp size {gpu.warp_size}" + (
                f", product {gpu.product}" if any(target.product for target in targets) else ""
            )


def _runs_on(code: str, gpu: str) -> bool:
    """Whether a cubin for `code` executes on `gpu`: same major, same or newer minor, no feature suffix.

    CUDA programming guide, "Binary Compatibility". A suffix ties code to its arch (``a``) or family (``f``).
    """
    wanted, present = _CUDA.fullmatch(code), _CUDA.fullmatch(gpu)
    if wanted is None or present is None or wanted[3]:
        return False
    return wanted[1] == present[1] and wanted[2] <= present[2]


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(set(words)))
