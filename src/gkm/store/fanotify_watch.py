"""Opens of a whole mount, by one mark. Needs root."""

import os
from collections.abc import Iterable
from pathlib import Path

from gkm.store.linux.fanotify import Fanotify
from gkm.store.observation import Observation

_DELETED = " (deleted)"
_LOOKS = 16
"""At one file: whoever renames it without end must not hold us."""


class FanotifyWatch:
    """Sees every open of the mount at `view`, by whatever process and through whatever bind mount.

    Once all of `wanted` (relative paths) were seen it stops listening: nothing more is to be learned.
    Raises `OSError` where the kernel refuses.
    """

    def __init__(self, view: Path, wanted: Iterable[str] = (), *, unlimited: bool = True) -> None:
        self._view = view
        self._prefix = f"{view}/"
        self._wanted = set(wanted)
        self._early = bool(self._wanted)
        self._opened: set[str] = set()
        self._unplaced = False
        self._group = Fanotify(view, unlimited=unlimited)

    def fileno(self) -> int:
        """See `Watch.fileno`."""
        return self._group.fileno()

    def drain(self) -> None:
        """See `Watch.drain`."""
        me = os.getpid()
        for event in self._group.events():
            try:
                if event.pid != me:
                    self._note(event.fd)
            finally:
                os.close(event.fd)
        if self._early and not self._wanted:
            self._early = False
            self._group.unmark()

    def finish(self) -> Observation:
        """See `Watch.finish`."""
        self._group.unmark()
        self.drain()
        self._group.close()
        return self.so_far()

    def so_far(self) -> Observation:
        """See `Watch.so_far`."""
        opened = frozenset(self._opened)
        if self._group.overflowed:
            return Observation("partial", "Overflow", opened)
        if self._unplaced:
            return Observation("partial", "Unplaced", opened)
        return Observation("complete", None, opened)

    def _note(self, fd: int) -> None:
        path = ""
        for _ in range(_LOOKS):
            before, path = path, _path(fd)
            relative = self._place(path, fd)
            if relative is not None:
                self._opened.add(relative)
                self._wanted.discard(relative)
            if relative is not None or path.endswith(_DELETED):
                return
            if path == before:
                break
            # Renamed while we looked, as temporary files are? Then it has another name by now.
        self._unplaced = True

    def _place(self, path: str, fd: int) -> str | None:
        """The relative path of the file `fd`, of which the kernel says that it is `path`."""
        path = path.removesuffix(_DELETED)
        if path.startswith(self._prefix):
            return path[len(self._prefix) :]
        return self._place_elsewhere(path, fd)

    def _place_elsewhere(self, path: str, fd: int) -> str | None:
        """The same for a file opened through another mount of the view, as in a container.

        There the kernel gives the path in that mount: its end is ours, and it is the same file.
        """
        opened = os.fstat(fd)
        parts = path.strip("/").split("/")
        for start in range(len(parts)):
            candidate = "/".join(parts[start:])
            try:
                here = (self._view / candidate).lstat()
            except OSError:
                continue
            if (here.st_dev, here.st_ino) == (opened.st_dev, opened.st_ino):
                return candidate
        return None


def _path(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115  as text, "(deleted)" and all
