"""Creation to Running: an empty directory, an image volume, our inline volume and our claim, round by round."""

import asyncio
import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bench_pods
from bench_pods import Start, Stopwatch
from bench_site import Site
from made_cache import change

KINDS = ("emptyDir", "image volume", "inline CSI", "claim")
BARE, RIVAL = KINDS[:2]

_TURNS = (0, 1, 3, 2)
"""Whoever goes first has the quietest or the coldest machine, and what one leaves to be done meets the next: shifted
by one each round, each kind has each place, and follows each other kind, equally often (E. J. Williams, 1949)."""


@dataclass
class Starts:
    """What was seen: by kind, of a cache that the node had not and then had."""

    absent: dict[str, list[Start]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    present: dict[str, list[Start]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    staging: list[float] = field(default_factory=list)
    """Seconds that the agent needed to stage what was absent, its own measure."""


async def measure_starts(
    site: Site, stopwatch: Stopwatch, cache: Path, *, rounds: int, entries: int
) -> Starts:
    """Start pods of each kind in `rounds` rounds, each with digests of its own.

    Nothing is deleted in between: for minutes after a deletion ext4 looks past every inode that was freed when it
    makes a file (recently_deleted in Linux's fs/ext4/ialloc.c), and unpacking thousands takes several times as long.
    """
    starts = Starts()
    for number in range(rounds):
        volumes = await _fresh(site, stopwatch.namespace, cache, number)
        turn = [KINDS[(number + step) % len(KINDS)] for step in _TURNS]
        for book, word in ((starts.absent, "absent"), (starts.present, "present")):
            for kind in turn:
                before = await site.staging_seconds()
                name = f"{word}-{kind.replace(' ', '-').lower()}-{number}"
                body = bench_pods.pod(name, stopwatch.namespace, volumes[kind])
                start = await _one(stopwatch, body)
                _check(kind, start, entries)
                book[kind].append(start)
                print(f"{name:28} Running {start.running:6.2f} s, began {start.began:6.2f} s", flush=True)
                if (staged := await site.staging_seconds() - before) > 0:
                    starts.staging.append(staged)
    return starts


async def _fresh(site: Site, namespace: str, cache: Path, number: int) -> dict[str, dict[str, Any]]:
    """The volumes of one round. What the rival pulls and what we stage by inline volume is the same image, for
    neither has the other's copy; the claim's is another."""
    images = []
    for which in range(2):
        await asyncio.to_thread(change, cache)
        images.append(await site.push(cache, f"bench/cache:{number}-{which}"))
    inline, claim = f"inline-{number}", f"claim-{number}"
    await site.make_cache(namespace, inline, images[0])
    await site.make_cache(namespace, claim, images[1])
    attributes = {"csi.gkm.io/GKMCache": inline, "csi.gkm.io/namespace": namespace}
    return {
        "emptyDir": {"emptyDir": {}},
        "image volume": {"image": {"reference": images[0], "pullPolicy": "IfNotPresent"}},
        "inline CSI": {"csi": {"driver": "csi.gkm.io", "volumeAttributes": attributes}},
        "claim": {"persistentVolumeClaim": {"claimName": claim}},
    }


async def _one(stopwatch: Stopwatch, body: dict[str, Any]) -> Start:
    # What the pod before left to be written must not be this one's burden. Kubelet looks at its pods at fixed
    # intervals: a start is as likely right after such a look as right before.
    await asyncio.to_thread(os.sync)
    await asyncio.sleep(1.5 + random.random())
    return await stopwatch.start(body)


def _check(kind: str, start: Start, entries: int) -> None:
    """Neither an empty directory nor a cold start passes for a warm one."""
    found, fitting = {
        BARE: (0, 0),
        RIVAL: (entries, 0),
    }.get(kind, (entries, entries))
    if (start.found, start.fitting) != (found, fitting):
        raise SystemExit(
            f"{kind}: the pod saw {start.found} entries, {start.fitting} of them relocated, not {found} and {fitting}"
        )
