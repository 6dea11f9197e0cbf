"""Opens below a directory, by one watch for each directory. Anybody may."""

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from gkm.store.linux.inotify import (
    IN_CREATE,
    IN_IGNORED,
    IN_ISDIR,
    IN_MOVED_TO,
    IN_OPEN,
    IN_Q_OVERFLOW,
    Inotify,
)
from gkm.store.observation import Observation

_MASK = IN_OPEN | IN_CREATE | IN_MOVED_TO


class InotifyWatch:
    """Sees opens below `view`, directory by directory; directories made meanwhile are watched as they come.

    What is opened in a new directory before its watch stands goes unseen. It cannot be a hit: the workload made
    it. Where `wanted` (relative paths) are given, no others are told of. Raises `OSError` where not even the first
    watch can be had.
    """

    def __init__(self, view: Path, wanted: Iterable[str] = ()) -> None:
        self._view = view
        self._wanted = frozenset(wanted)
        self._names: dict[int, str] = {}
        self._opened: set[str] = set()
        self._reason: str | None = None
        self._queue = Inotify()
        try:
            self._names[self._queue.watch(str(view), _MASK)] = ""
            self._watch_below("")
        except BaseException:
            self._queue.close()
            raise

    def fileno(self) -> int:
        """See `Watch.fileno`."""
        return self._queue.fileno()

    def drain(self) -> None:
        """See `Watch.drain`."""
        for event in self._queue.events():
            if event.mask & IN_Q_OVERFLOW:
                self._reason = "Overflow"
                continue
            if event.mask & IN_IGNORED:
                self._names.pop(event.watch, None)
                continue
            parent = self._names.get(event.watch)
            if parent is None or not event.name:
                continue
            path = f"{parent}{event.name}"
            if not event.mask & IN_ISDIR:
                # A workload can make up names without end, and open them.
                if event.mask & IN_OPEN and (path in self._wanted or not self._wanted):
                    self._opened.add(path)
            elif event.mask & (IN_CREATE | IN_MOVED_TO):
                self._watch(path)
                self._watch_below(f"{path}/")

    def let_go(self) -> Observation:
        """See `Watch.let_go`; watches hold no mount."""
        self.drain()
        return self.so_far()

    def close(self) -> None:
        """See `Watch.close`."""
        self._queue.close()

    def finish(self) -> Observation:
        """See `Watch.finish`."""
        seen = self.let_go()
        self.close()
        return seen

    def so_far(self) -> Observation:
        """See `Watch.so_far`."""
        kind: Literal["complete", "partial"] = "complete" if self._reason is None else "partial"
        return Observation(kind, self._reason, frozenset(self._opened))

    def _watch(self, relative: str) -> None:
        try:
            self._names[self._queue.watch(str(self._view / relative), _MASK)] = f"{relative}/"
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.ENOMEM}:
                self._reason = self._reason or "WatchLimit"
            elif error.errno not in {errno.ENOENT, errno.ENOTDIR}:  # those two: gone again, or a link
                self._reason = self._reason or "Unwatched"

    def _watch_below(self, prefix: str) -> None:
        root = self._view / prefix
        for directory, names, _ in os.walk(root):
            inner = os.path.relpath(directory, self._view)
            for name in names:
                self._watch(name if inner == "." else f"{inner}/{name}")
