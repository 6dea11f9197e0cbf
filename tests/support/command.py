"""The real `gkm` command as a subprocess, and the real workload that compiles kernels."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

GKM = str(Path(sys.executable).with_name("gkm"))


def gkm(
    *arguments: str | Path, env: Mapping[str, str] | None = None, status: int | None = 0, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run `gkm`; asserts its exit status unless `status` is None."""
    done = subprocess.run(
        [GKM, *map(str, arguments)],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        **options,
    )
    assert status is None or done.returncode == status, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def gkm_json(*arguments: str | Path, env: Mapping[str, str] | None = None, status: int = 0) -> Any:
    """The document that `gkm … --output json` prints."""
    return json.loads(gkm(*arguments, "--output", "json", env=env, status=status).stdout)


def workload(
    report: Path, targets: Sequence[str] = ("sm_90",), *, kernels: int = 2, extra: bool = False
) -> list[str]:
    """The command line of the program that compiles real Triton kernels and counts what it compiled."""
    words = [sys.executable, "-m", "gkm.local.demo_kernels", "--targets", ",".join(targets)]
    words += ["--kernels", str(kernels), "--report", str(report)]
    return [*words, "--extra"] if extra else words


def compiled(report: Path) -> int:
    """How many kernels the compiler's own listener saw compiled, from a workload's report."""
    return int(json.loads(report.read_text())["compiled"])
