"""Blocking work in a thread that a cancelled caller waits for."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


async def run_to_end(work: Callable[[], _T]) -> _T:
    """`work()` in a thread. A cancelled caller is cancelled only once the thread is done.

    asyncio cannot stop a thread: returning early would leave it writing into a directory that the caller
    then deletes.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                continue
        raise
