"""Locks that the kernel drops when their holder dies, kill -9 included (flock(2)).

A lock belongs to an open file description: a child that inherits the descriptor keeps it alive, which is
how a supervised command keeps its view from being collected. Lock files are never deleted while the store
lives: deleting one would let two holders lock different files of the same name.
"""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path


def open_lock(path: Path) -> int:
    """A descriptor of the lock file at `path`, made if needed. Raises `OSError`."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """Lock `fd` without waiting; False when another holds it."""
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_lock(fd: int) -> None:
    """Lock `fd`, waiting for others. Raises `OSError`."""
    fcntl.flock(fd, fcntl.LOCK_EX)


@contextlib.contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock at `path` for the block, waiting for it. For instants, not for work."""
    fd = open_lock(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def trying(path: Path) -> Iterator[bool]:
    """Hold the lock at `path` for the block if it is free; yields whether it is."""
    fd = open_lock(path)
    try:
        yield try_lock(fd)
    finally:
        os.close(fd)


@contextlib.asynccontextmanager
async def waiting_for(path: Path, *, every: float = 0.05) -> AsyncIterator[bool]:
    """Hold the lock at `path` for the block, waiting without a thread, so that waiting can be cancelled.

    Looks every `every` seconds. Yields whether another held it first, in which case the work may be done.
    """
    fd = open_lock(path)
    try:
        waited = False
        while not try_lock(fd):
            waited = True
            await asyncio.sleep(every)
        yield waited
    finally:
        os.close(fd)
