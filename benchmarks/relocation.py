"""What a delivered cache is worth: one program, cold, with a copied cache, and with GKM's mount, in one run.

Real Triton, real mounts, no GPU. Seconds are those that a person waits, from starting the process to its end:
the Python interpreter, `import triton` and all of `gkm run` included. The ways take turns, so that whatever
else the machine does strikes all of them alike; ratios are of medians. Counts come from Triton's own listener,
and a way that compiled more or less than it should fails the benchmark instead of being reported.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

GKM = Path(sys.executable).with_name("gkm")


@dataclass
class Way:
    """One way to start the program: what it is called, and what each round took in seconds."""

    name: str
    compiled: int
    """How many kernels Triton must compile this way."""
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


class Benchmark:
    """Runs the workload in every way, `rounds` times, below `scratch`."""

    def __init__(self, scratch: Path, targets: str, kernels: int) -> None:
        self._scratch = scratch
        self._told = scratch / "workload.json"
        self._workload = [
            *(sys.executable, "-m", "gkm.local.demo_kernels"),
            *("--targets", targets, "--kernels", str(kernels), "--report", str(self._told)),
        ]
        total = kernels * len(targets.split(","))
        self.cold = Way("cold: nothing cached", total)
        self.copied = Way("copied: cache directory at another path", total)
        self.first = Way("gkm run, first on this machine: stage and mount", 0)
        self.staged = Way("gkm run, staged before: mount", 0)
        self.in_place = Way("in place: cache never moved, no GKM", 0)
        self.mount = self.observation = ""

    @property
    def ways(self) -> tuple[Way, ...]:
        """In the order in which a round goes through them."""
        return self.cold, self.copied, self.first, self.staged, self.in_place

    def round(self, number: int) -> None:
        """One run each way; what the cold run compiled is what the others are given."""
        place = self._scratch / f"round-{number}"
        built, copied, store = place / "built", place / "copied", place / "store"
        image = f"oci:{place / 'layout'}:v1"
        place.mkdir()
        self._run(self.cold, self._workload, {"TRITON_CACHE_DIR": str(built)})
        subprocess.run([GKM, "pack", built, image], check=True, stdout=subprocess.DEVNULL)
        shutil.copytree(built, copied)
        # As on another machine: left in place, the original would serve the absolute paths in its copy.
        built = built.rename(place / "out-of-sight")
        self._run(self.copied, self._workload, {"TRITON_CACHE_DIR": str(copied)})
        for way in (self.first, self.staged):
            report = place / "run.json"
            gkm_run = [GKM, "run", "--store", store, "--cache", image, "--require-hit", "--report", report]
            self._run(way, [*map(str, gkm_run), "--", *self._workload], {"GKM_SIMULATED_GPUS": "none"})
            told = json.loads(report.read_bytes())
            self.mount, self.observation = told["mount"], told["observation"]
        built = built.rename(place / "built")
        self._run(self.in_place, self._workload, {"TRITON_CACHE_DIR": str(built)})
        shutil.rmtree(place)

    def _run(self, way: Way, command: list[str], environ: Mapping[str, str]) -> None:
        began = time.perf_counter()
        done = subprocess.run(
            command, env={**os.environ, **environ}, capture_output=True, text=True, check=False
        )
        way.seconds.append(time.perf_counter() - began)
        if done.returncode != 0:
            sys.exit(f"{way.name}: failed with {done.returncode}\n{done.stdout}{done.stderr}")
        compiled = json.loads(self._told.read_bytes())["compiled"]
        if compiled != way.compiled:
            sys.exit(f"{way.name}: {compiled} kernels compiled where {way.compiled} were expected")


def report(benchmark: Benchmark, rounds: int) -> dict[str, object]:
    """Print a table for people and return the figures."""
    cold = benchmark.cold.median
    print(f"{'':48} {'compiled':>8} {'median s':>9} {'min s':>7} {'max s':>7} {'times faster':>12}")
    for way in benchmark.ways:
        print(
            f"{way.name:48} {way.compiled:8} {way.median:9.2f} {min(way.seconds):7.2f} {max(way.seconds):7.2f} "
            f"{cold / way.median:12.2f}"
        )
    overhead = benchmark.staged.median - benchmark.in_place.median
    print(
        f"{rounds} rounds, {os.cpu_count()} CPUs; mount {benchmark.mount}, observation "
        f"{benchmark.observation}; gkm run costs {overhead:.2f} s over a cache that never moved"
    )
    return {
        "rounds": rounds,
        "mount": benchmark.mount,
        "observation": benchmark.observation,
        "overheadSeconds": round(overhead, 3),
        "ways": [
            {
                "name": way.name,
                "compiled": way.compiled,
                "seconds": [round(s, 3) for s in way.seconds],
                "timesFaster": round(cold / way.median, 2),
            }
            for way in benchmark.ways
        ],
    }


def main() -> None:
    """Run as the command line says; exit status 0 only if every way did what it should."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--targets", default="sm_80,sm_90,sm_100,gfx942,gfx1100")
    parser.add_argument("--kernels", type=int, default=12)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gkm-bench-") as scratch:
        benchmark = Benchmark(Path(scratch), options.targets, options.kernels)
        for number in range(max(1, options.rounds)):
            benchmark.round(number)
        figures = report(benchmark, max(1, options.rounds))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
