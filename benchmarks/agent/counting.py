"""What counting costs a workload: opening all files of a mounted cache, observed and not, on one mount."""

import asyncio
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench_processes import cpu_seconds, fanotify_marks
from bench_waiting import until

_PASSES = 9
_QUIET = 2.0
"""Seconds after a change, until the observer has read all that was queued."""


@dataclass(frozen=True)
class Counting:
    """Seconds to open and close all files (medians), and what the agent computed meanwhile, per file."""

    files: int
    observed: float
    unobserved: float
    agent_seconds_per_file: float


async def measure_counting(view: Path, agent: Callable[[], list[int]]) -> Counting:
    """Open every file below `view`, as its pod sees it, pass by pass; `agent` gives the agent's processes.

    The agent stops observing once every entry's payload was opened: so one is left out until the last pass that is
    to be observed, and then opened.
    """
    files = await asyncio.to_thread(_files, view)
    kept_back = [name for name in files if Path(name).parent == Path(files[0]).parent]
    opened = [name for name in files if name not in kept_back]
    marks = fanotify_marks(agent())
    await _passes(opened, 2)  # the inodes are in memory afterwards, for all that follows
    used = cpu_seconds(agent())
    observed = await _passes(opened, _PASSES)
    await asyncio.sleep(_QUIET)
    used = cpu_seconds(agent()) - used
    if fanotify_marks(agent()) != marks:
        raise SystemExit("the mount was not observed to the end: nothing can be compared")
    _open(kept_back)

    async def held() -> int:
        return fanotify_marks(agent())

    await until(held, lambda now: now < marks, "the agent stops observing")
    await asyncio.sleep(_QUIET)
    unobserved = await _passes(opened, _PASSES)
    return Counting(len(opened), observed, unobserved, used / _PASSES / len(opened))


def _files(view: Path) -> list[str]:
    return sorted(str(path) for path in view.rglob("*") if path.is_file())


async def _passes(files: Sequence[str], count: int) -> float:
    seconds = []
    for _ in range(count):
        began = time.perf_counter()
        _open(files)
        seconds.append(time.perf_counter() - began)
        await asyncio.sleep(0.5)
    return statistics.median(seconds)


def _open(files: Sequence[str]) -> None:
    for name in files:
        os.close(os.open(name, os.O_RDONLY))
