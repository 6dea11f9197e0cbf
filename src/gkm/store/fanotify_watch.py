"""Opens of a whole mount, by one mark. Needs root."""

import contextlib
import itertools
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

    Once all of `wanted` (relative paths) were seen it stops listening: nothing more is to be learned. Where they
    are given, an opened file that is none of them is not told of, and need not be placed for the observation to be
    complete.
    Raises `OSError` where the kernel refuses.
    """

    def __init__(self, view: Path, wanted: Iterable[str] = (), *, unlimited: bool = True) -> None:
        self._view = view
        self._prefix = f"{view}/"
        self._all = frozenset(wanted)  # itself, where it is one: views of one tree share it
        self._unseen = len(self._all)
        self._files: dict[tuple[int, int], list[str]] | None = None
        self._early = bool(self._all)
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
        if self._early and not self._unseen:
            self._early = False
            self._group.unmark()

    def let_go(self) -> Observation:
        """See `Watch.let_go`."""
        self._group.unmark()
        self.drain()
        return self.so_far()

    def close(self) -> None:
        """See `Watch.close`."""
        self._group.close()

    def finish(self) -> Observation:
        """See `Watch.finish`."""
        seen = self.let_go()
        self.close()
        return seen

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
                self._saw(relative)
            if relative is not None or path.endswith(_DELETED):
                return
            if path == before:
                break
            # Renamed while we looked, as temporary files are? Then it has another name by now.
        self._note_by_file(path, fd)

    def _saw(self, name: str) -> None:
        # A workload can make up names without end, and open them.
        if name not in self._opened and (name in self._all or not self._all):
            self._opened.add(name)
            self._unseen -= 1

    def _note_by_file(self, path: str, fd: int) -> None:
        """The same for a file whose path tells nothing: a part of the view may be mounted alone (``subPath``)."""
        opened = os.fstat(fd)
        names = self._wanted_files().get((opened.st_dev, opened.st_ino), [])
        # Of identical files, which are one, it is the one whose name the path has most of.
        alike = [_same_end(name, path) for name in names]
        best = [name for name, parts in zip(names, alike, strict=True) if parts == max(alike)]
        if len(best) == 1:
            self._saw(best[0])
        elif best or not self._all:
            self._unplaced = True

    def _wanted_files(self) -> dict[tuple[int, int], list[str]]:
        """The names of each wanted file, looked up when first needed. One that the workload wrote meanwhile is
        another file by now: it is none of the tree's any more."""
        if self._files is None:
            self._files = {}
            for name in self._all:
                with contextlib.suppress(OSError):
                    found = (self._view / name).lstat()
                    self._files.setdefault((found.st_dev, found.st_ino), []).append(name)
        return self._files

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


def _same_end(one: str, other: str) -> int:
    """How many of their last components are the same."""
    pairs = zip(reversed(one.split("/")), reversed(other.split("/")), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _path(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115  as text, "(deleted)" and all
