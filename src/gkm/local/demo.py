"""The demonstration: the whole main job on this machine, with a real compiler, told step by step.

Two directories stand for two machines: one where kernels are compiled, one where they are needed. Between them
the cache travels as an image, through a real registry on loopback where one is installed.
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from gkm.base.errors import GKMError
from gkm.images.options import ClientOptions
from gkm.local.demo_kernels import WorkloadReport
from gkm.local.loopback_registry import loopback_registry, registry_program
from gkm.local.pack import PackReport, pack_directory
from gkm.local.report import RunReport
from gkm.local.run import RunRequest, make_ready, run
from gkm.store.store import Store

TARGETS = ("sm_80", "sm_90", "sm_100", "gfx942")
"""GPUs that the demonstration compiles for; none of them needs to be there."""


class DemoFailedError(GKMError):
    """A step of the demonstration did not do what it should; the message says which and what was printed."""


class DemoReport(msgspec.Struct, frozen=True, rename="camel"):
    """The document of `gkm demo`. Seconds are the program's own, its start included."""

    carrier: str
    """`registry` or `layout`: what the image travelled through."""
    digest: str
    kernels: int
    cold_seconds: float
    copied_seconds: float
    copied_compiled: int
    """Kernels compiled again where the cache directory was merely copied to another path."""
    warm_seconds: float
    warm_compiled: int
    hits: int | None
    misses: int
    observation: str
    mount: str
    ratio: float
    """Cold seconds by warm seconds."""


Say = Callable[[str], None]


def demonstrate(say: Say) -> DemoReport:
    """Run the demonstration in a temporary directory, telling each step through `say`.

    Raises:
        DemoFailedError: Triton is not installed, or a step went wrong.
    """
    with tempfile.TemporaryDirectory(prefix="gkm-demo-") as scratch:
        return _Demonstration(Path(scratch), say).tell()


class _Demonstration:
    def __init__(self, scratch: Path, say: Say) -> None:
        self._scratch = scratch
        self._say = say
        self._here = scratch / "build-machine" / "triton-cache"
        self._here.mkdir(parents=True)

    def tell(self) -> DemoReport:
        self._say(f"Compiling real Triton kernels for {', '.join(TARGETS)}; no GPU is needed for that.")
        cold = self._program(self._here)
        self._say(f"  cold: {cold.compiled} kernels compiled in {cold.seconds:.2f} s")

        with self._carrier() as (carrier, image):
            packed = asyncio.run(pack_directory(self._here, image, options=ClientOptions()))
            sizes = f"{packed.cache_bytes / 1024:.0f} KiB of cache became {packed.size / 1024:.0f} KiB"
            self._say(f"Packed as {image}, through {carrier}:")
            self._say(f"  {sizes}, {packed.digest}")
            kept = self._leave_the_build_machine()

            self._say("Without GKM: the cache directory, merely copied to another path on another machine.")
            copied = self._program(kept)
            self._say(
                f"  copied: {copied.compiled} of {cold.compiled} kernels compiled again, in silence, "
                f"in {copied.seconds:.2f} s (a Triton cache holds absolute paths)"
            )
            report, warm = self._warm(image, packed)
        self._say(
            f"  warm: {warm.compiled} kernels compiled, {report.hits} of {report.entries} entries hit, "
            f"{report.misses} misses, in {warm.seconds:.2f} s"
        )
        if warm.compiled or report.misses:
            raise DemoFailedError(f"the delivered cache was not hit: {report}")
        ratio = cold.seconds / warm.seconds
        self._say(f"{ratio:.1f} times faster than cold: that is what GKM is for.")
        return DemoReport(
            carrier="registry" if carrier.startswith("a real") else "layout",
            digest=packed.digest,
            kernels=cold.compiled,
            cold_seconds=cold.seconds,
            copied_seconds=copied.seconds,
            copied_compiled=copied.compiled,
            warm_seconds=warm.seconds,
            warm_compiled=warm.compiled,
            hits=report.hits,
            misses=report.misses,
            observation=report.observation,
            mount=report.mount,
            ratio=round(ratio, 2),
        )

    def _leave_the_build_machine(self) -> Path:
        """What was built is no longer at its path, as on any other machine; returns where a copy of it is."""
        elsewhere = self._scratch / "gpu-machine" / "copied-cache"
        elsewhere.parent.mkdir()
        shutil.move(self._here, elsewhere)
        return elsewhere

    def _warm(self, image: str, packed: PackReport) -> tuple[RunReport, WorkloadReport]:
        store = Store.open(self._scratch / "gpu-machine" / "store")
        self._say("With GKM: stage the image there, mount it copy-on-write, run the same program.")
        result = self._scratch / "warm.json"
        request = RunRequest(
            command=(*_PROGRAM, "--report", str(result)),
            cache=f"{image.split('@', maxsplit=1)[0]}@{packed.digest}",
        )
        report = run(store, request, asyncio.run(make_ready(store, request, os.environ)))
        if report.exit_status != 0 or report.cold:
            raise DemoFailedError(f"the warm run failed: status {report.exit_status}, {report.cold_because}")
        return report, msgspec.json.decode(result.read_bytes(), type=WorkloadReport)

    def _program(self, cache: Path) -> WorkloadReport:
        """The workload with its cache at `cache`: what its compiler's own listener counted."""
        result = self._scratch / "report.json"
        done = subprocess.run(
            [*_PROGRAM, "--report", str(result)],
            env={**os.environ, "TRITON_CACHE_DIR": str(cache)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode != 0:
            said = done.stdout.decode(errors="replace")[-2000:]
            raise DemoFailedError(f"the program that compiles kernels failed with {done.returncode}:\n{said}")
        return msgspec.json.decode(result.read_bytes(), type=WorkloadReport)

    @contextlib.contextmanager
    def _carrier(self) -> Iterator[tuple[str, str]]:
        program = registry_program()
        if program is None:
            layout = self._scratch / "carried"
            yield "a layout directory (no registry is installed here)", f"oci:{layout}:v1"
            return
        data = self._scratch / "registry"
        data.mkdir()
        with loopback_registry(program, data) as host:
            yield f"a real registry on {host}", f"{host}/demo/kernels:v1"


_PROGRAM = (sys.executable, "-m", "gkm.local.demo_kernels", "--targets", ",".join(TARGETS))
