"""Counting a view in which the pod wrote nothing: nearly every one, and then no foreign byte has to be read.

A child to count in is a Python to start: 0.09 s of CPU, where this takes a tenth of a millisecond, once for each
pod's start, for each of its ends, and now and then while it does something.
"""

import contextlib
import os
from collections.abc import Collection, Iterable
from pathlib import Path

from gkm.agent.counting import CountAnswer


def count_untouched(
    payloads: Iterable[tuple[str, ...]], opened: Collection[str], upper: Path
) -> CountAnswer | None:
    """What `gkm.agent.counting.counted` says of a view whose `upper` is empty; None where it is not, or cannot be
    looked at.

    `payloads` are those of the tree's entries. Of the upper only the first name is asked for, which tells nothing but
    that there is one: what a pod named, made or linked is neither followed nor read here (`gkm.agent.child`).
    """
    if not _is_empty(upper):
        return None
    seen = frozenset(opened)
    return CountAnswer(hits=sum(not seen.isdisjoint(payload) for payload in payloads), misses=0)


def _is_empty(directory: Path) -> bool:
    with contextlib.suppress(OSError):
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            with os.scandir(fd) as names:
                return next(names, None) is None
        finally:
            os.close(fd)
    return False
