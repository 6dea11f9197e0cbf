"""Real Triton caches for tests: compiled by the real compiler, in a process of its own, without a GPU."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_PROGRAM = Path(__file__).with_name("triton_program.py")

KERNELS = ("add", "scale")
"""Compiled unless a test says otherwise; ``total`` is the further one, for misses."""


@dataclass(frozen=True)
class CompileReport:
    """What Triton's own compilation listener saw: ``kernel@arch`` for each compilation and each hit."""

    compiled: tuple[str, ...]
    hits: tuple[str, ...]
    triton: str


def compile_cache(
    directory: Path,
    targets: Sequence[str] = ("sm_80",),
    kernels: Sequence[str] = KERNELS,
    *,
    num_warps: int | None = None,
) -> CompileReport:
    """Run the program with its cache in `directory`, for `targets` such as ``sm_80`` and ``gfx942``."""
    wanted = {"targets": list(targets), "kernels": list(kernels), "num_warps": num_warps}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(_PROGRAM), json.dumps(wanted)],
        env={"TRITON_CACHE_DIR": str(directory), "PATH": os.environ["PATH"], "HOME": str(directory.parent)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    return CompileReport(tuple(report["compiled"]), tuple(report["hits"]), report["triton"])
