"""What the agent costs at rest with many pods' mounts: memory, and CPU over a while in which nothing happens."""

import asyncio
from dataclasses import dataclass
from typing import Any

import bench_pods
from bench_pods import Stopwatch
from bench_processes import Memory, cpu_seconds, members, memory
from bench_site import Site

_AT_ONCE = 4
_SETTLE = 20.0
"""Seconds after the last pod's start: its mount is counted a first time, the cache's status is written."""


@dataclass(frozen=True)
class Footprint:
    """What was seen with `mounts` mounts."""

    mounts: int
    memory: list[Memory]
    seconds: float
    cpu_seconds: float


async def measure_footprint(
    site: Site, stopwatch: Stopwatch, volume: dict[str, Any], *, mounts: int, seconds: float
) -> Footprint:
    """Start `mounts` pods with `volume` that do nothing, look at the agent for `seconds`, and remove them."""
    names = [f"idle-{number}" for number in range(mounts)]
    bodies = [
        bench_pods.pod(name, stopwatch.namespace, volume, command=["sleep", "100000"]) for name in names
    ]
    uids: list[str] = []
    for first in range(0, mounts, _AT_ONCE):
        uids += await asyncio.gather(*map(stopwatch.create, bodies[first : first + _AT_ONCE]))
    await asyncio.sleep(_SETTLE)
    used = cpu_seconds(members(site.agent_uid))
    await asyncio.sleep(seconds)
    pids = members(site.agent_uid)
    found = Footprint(mounts, memory(pids), seconds, cpu_seconds(pids) - used)
    for first in range(0, mounts, _AT_ONCE):
        step = slice(first, first + _AT_ONCE)
        await asyncio.gather(*map(stopwatch.remove, bodies[step], uids[step]))
    return found
