"""A program that compiles real Triton kernels for GPUs that need not be there, and tells what it compiled.

``python -m gkm.local.demo_kernels --targets sm_90,gfx942 --report FILE`` stands for any workload with a JIT
compiler: it knows nothing of GKM, honours ``TRITON_CACHE_DIR`` as Triton does, and counts compilations and
cache hits through Triton's own listener, never by time.
"""

import argparse
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import msgspec

from gkm.base.errors import GKMError
from gkm.base.files import write_atomic

_STARTED = time.perf_counter()
_CUDA = re.compile(r"sm_(\d{2,3})")
_HIP = re.compile(r"gfx(\d+)[0-9a-f]{2}")
_DTYPES = ("fp32", "fp16", "bf16")
_BLOCKS = (512, 1024, 256, 2048)
# Triton's default today, said aloud: it warns that the next release has another.
_OPTIONS = {"enable_fp_fusion": True}


class CompilationFailedError(GKMError):
    """Triton cannot compile a kernel for a target; its own words are in the message."""


class WorkloadReport(msgspec.Struct, frozen=True, rename="camel"):
    """What one run did. A kernel counts once per target; `compiled` and `hits` add up to all of them."""

    compiled: int
    hits: int
    seconds: float
    """From the program's first line to its last, Triton's import included."""
    import_seconds: float
    kernels: int
    """Distinct kernels: a function with one type of operand and one block size."""
    targets: tuple[str, ...]
    triton: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile as `arguments` say (default: the command line's), report, and give the exit status."""
    options = _options(arguments)
    began = time.perf_counter()
    try:
        # Here, so that asking for --help costs nothing and a missing Triton gets a sentence of its own.
        from gkm.local import demo_triton  # noqa: PLC0415
    except ModuleNotFoundError as error:
        sys.stderr.write(f"this program needs Triton ({error}): run `make setup`, or install triton\n")
        return 1
    import_seconds = time.perf_counter() - began
    try:
        report = _compile_all(demo_triton, options.targets, options.kernels, options.extra, import_seconds)
    except CompilationFailedError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if options.report is not None:
        write_atomic(options.report, msgspec.json.encode(report) + b"\n")
    sys.stdout.write(
        f"{report.kernels} kernels for {', '.join(report.targets)}: {report.compiled} compiled, "
        f"{report.hits} from the cache, {report.seconds:.2f} s\n"
    )
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m gkm.local.demo_kernels", description="Compile real Triton kernels without a GPU."
    )
    parser.add_argument(
        "--targets", type=_targets, default=_targets("sm_90"), metavar="LIST", help="sm_80,sm_90,gfx942 …"
    )
    parser.add_argument(
        "--kernels", type=_count, default=12, metavar="N", help="how many kernels (default: 12)"
    )
    parser.add_argument("--extra", action="store_true", help="one kernel more, which other runs don't have")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write what was done as JSON")
    return parser.parse_args(arguments)


def _targets(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if not _CUDA.fullmatch(name) and not _HIP.fullmatch(name):
            raise argparse.ArgumentTypeError(f"{name!r} is no target: write sm_90 or gfx942")
    return names


def _count(text: str) -> int:
    most = 12 * len(_DTYPES) * len(_BLOCKS)
    if not text.isdecimal() or not 0 < int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {most}")
    return int(text)


def _compile_all(
    module: ModuleType, targets: Sequence[str], kernels: int, extra: bool, import_seconds: float
) -> WorkloadReport:
    triton = module.triton
    counts = {True: 0, False: 0}

    def listen(*, cache_hit: bool, **_: object) -> None:
        counts[cache_hit] += 1

    triton.knobs.compilation.listener = listen
    # Variants of the kernels come after all of the plain ones, so any number above a dozen adds work.
    variants = [
        (kernel, dtype, block) for block in _BLOCKS for dtype in _DTYPES for kernel in module.KERNELS
    ][:kernels]
    if extra:
        variants.append((module.EXTRA, _DTYPES[0], _BLOCKS[0]))
    for name in targets:
        target = _gpu_target(triton, name)
        for kernel, dtype, block in variants:
            pointers = dict.fromkeys(("x", "y", "out"), f"*{dtype}")
            signature = pointers | {"n": "i32", "block": "constexpr"}
            source = triton.compiler.ASTSource(fn=kernel, signature=signature, constexprs={"block": block})
            try:
                triton.compile(source, target=target, options=_OPTIONS)
            except (triton.errors.TritonError, RuntimeError) as error:
                raise CompilationFailedError(
                    f"Triton {triton.__version__} cannot compile {kernel.__name__} for {name}: {error}"
                ) from error
    return WorkloadReport(
        compiled=counts[False],
        hits=counts[True],
        seconds=time.perf_counter() - _STARTED,
        import_seconds=import_seconds,
        kernels=len(variants),
        targets=tuple(targets),
        triton=triton.__version__,
    )


def _gpu_target(triton: ModuleType, name: str) -> object:
    """Triton's target for ``sm_90`` or ``gfx942``; gfx9 runs wavefronts of 64, later ones of 32."""
    target = triton.backends.compiler.GPUTarget
    if cuda := _CUDA.fullmatch(name):
        return target("cuda", int(cuda[1]), 32)
    hip = _HIP.fullmatch(name)
    assert hip is not None  # _targets let nothing else through
    return target("hip", name, 64 if hip[1] == "9" else 32)


if __name__ == "__main__":
    sys.exit(main())
