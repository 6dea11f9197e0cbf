"""Directories that belong to a living process: those below ``staging`` and ``mounts``.

A claim is a directory with a random name and a held lock inside. Its owner's death frees the lock, and
whoever opens the store next takes the directory over and throws it away. Appearing and being taken over are
ordered by the store's lock, so a directory without a held lock really has no owner.
"""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from gkm.store.errors import is_full
from gkm.store.layout import Layout
from gkm.store.locks import locked, open_lock, try_lock, wait_for_lock

_LOCK = "lock"


class Claim:
    """A directory of ours. `close` gives up the lock only; what is in the directory stays."""

    def __init__(self, path: Path, lock_fd: int) -> None:
        self.path = path
        self._fd = lock_fd

    def fileno(self) -> int:
        """The lock's descriptor, to be inherited by a process that shall keep the claim alive."""
        return self._fd

    def close(self) -> None:
        """Let others take the directory over. Does nothing the second time."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def claim(layout: Layout, parent: Path) -> Claim:
    """Make a fresh directory in `parent` and own it. Raises `OSError`."""
    path = parent / secrets.token_hex(8)
    with locked(layout.lock):
        path.mkdir(mode=0o700)
        try:
            return own(path)
        except BaseException:
            path.rmdir()
            raise


def own(path: Path) -> Claim:
    """Own the directory `path`, which nobody else knows of or may take over meanwhile. Raises `OSError`."""
    fd = open_lock(path / _LOCK)
    wait_for_lock(fd)  # `is_owned` of another process may hold it for an instant
    return Claim(path, fd)


def is_owned(path: Path) -> bool:
    """Whether a living process owns the directory at `path`; False when it is gone."""
    try:
        fd = os.open(path / _LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        return not try_lock(fd, shared=True)
    finally:
        os.close(fd)


def abandoned(layout: Layout, parent: Path) -> Iterator[Claim]:
    """Take over each directory in `parent` whose owner is dead, one at a time; the caller closes it."""
    for path in sorted(parent.iterdir()):
        with locked(layout.lock):
            try:
                fd = open_lock(path / _LOCK)
            except FileNotFoundError:
                continue  # another took it over and threw it away
            except OSError as error:
                if is_full(error):
                    continue  # its owner died before it had a lock, and for that there is no room now
                raise
            if not try_lock(fd):
                os.close(fd)
                continue
        yield Claim(path, fd)
