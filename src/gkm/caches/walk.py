"""Listing a tree, in two ways: one that belongs to whoever runs GKM, and one that a workload wrote.

The second, the private upper of a mount, is hostile (docs/formats.md, "What a workload wrote"). Both walks
go through directory descriptors and are bounded.
"""

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from gkm.base.errors import UsageError
from gkm.caches.tree import Tree, TreeFile, TreeReadError, TreeTooLargeError, UnsafeTreeError, split

IN_FLIGHT = "tmp.pid_"
"""Directories of this prefix hold what a Triton process is writing (triton/runtime/cache.py, `put`)."""


@dataclass(frozen=True, slots=True)
class TreeLimits:
    """Bounds of one walk: directory entries in all, levels of directories, and seconds (None: no bound)."""

    entries: int = 1_000_000
    depth: int = 64
    seconds: float | None = None


def list_tree(root: Path, limits: TreeLimits | None = None) -> Tree:
    """List a tree for packing: a link to something inside counts as what it names.

    Directories that a compiler is still writing (``tmp.pid_…``) are left out; all else must be carriable.

    Raises:
        UsageError: `root` is no directory.
        UnsafeTreeError: a link leaves the tree, dangles or leads in a circle; a device, socket or FIFO; a
            name that is not UTF-8.
        TreeTooLargeError: more entries or levels than `limits` allow.
        TreeReadError: a directory cannot be read.
    """
    real = Path(os.path.realpath(root))
    if not real.is_dir():
        raise UsageError(f"{root} is not a directory: give the directory that a compiler wrote its cache to")
    return _list(real, limits or TreeLimits(), trusted=True)


def list_upper(root: Path, limits: TreeLimits | None = None) -> Tree:
    """List the private upper of a mount: hostile, so only regular files count, and nothing is followed.

    Links, devices (overlayfs marks a deleted name by a character device 0:0), sockets, FIFOs and names that
    are not UTF-8 are passed over. The tree is lenient.

    Raises:
        TreeTooLargeError: more entries, levels or seconds than `limits` allow.
        TreeReadError: `root` itself cannot be read.
    """
    return _list(root, limits or TreeLimits(entries=200_000, seconds=60.0), trusted=False)


def _list(root: Path, limits: TreeLimits, *, trusted: bool) -> Tree:
    walk = _Walk(root, limits, trusted)
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with _closing(descriptor):
            walk.directory(descriptor, "", "", 0)
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else root
        raise TreeReadError(
            f"cannot list {where} below {root}: {error.strerror}; run GKM as the owner of the tree"
        ) from error
    return Tree(root, MappingProxyType(dict(sorted(walk.files.items()))), lenient=not trusted)


class _Walk:
    """One walk: `prefix` is the path as the tree shows it, `real` the same with links resolved."""

    def __init__(self, root: Path, limits: TreeLimits, trusted: bool) -> None:
        self.files: dict[str, TreeFile] = {}
        self._root = root
        self._limits = limits
        self._trusted = trusted
        self._seen = 0
        self._deadline = None if limits.seconds is None else time.monotonic() + limits.seconds

    def directory(self, descriptor: int, prefix: str, real: str, depth: int) -> None:
        if depth > self._limits.depth:
            raise TreeTooLargeError(f"{prefix!r} is more than {self._limits.depth} directories deep")
        with os.scandir(descriptor) as entries:
            for entry in entries:
                self._count()
                try:
                    entry.name.encode()
                except UnicodeEncodeError as error:
                    if self._trusted:
                        raise UnsafeTreeError(
                            f"the name {prefix + entry.name!r} is not UTF-8: rename the file"
                        ) from error
                    continue
                self._entry(entry, descriptor, prefix, real, depth)

    def _count(self) -> None:
        self._seen += 1
        if self._seen > self._limits.entries:
            raise TreeTooLargeError(
                f"{self._root} holds more than {self._limits.entries} files and directories"
            )
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise TreeTooLargeError(f"{self._root} could not be listed in {self._limits.seconds} seconds")

    def _entry(self, entry: os.DirEntry[str], descriptor: int, prefix: str, real: str, depth: int) -> None:
        path = prefix + entry.name
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return  # a live cache: the name went away between the listing and the look at it
        if stat.S_ISREG(status.st_mode):
            self.files[path] = TreeFile(real + entry.name, status.st_size, status.st_mtime_ns)
        elif stat.S_ISDIR(status.st_mode):
            if not entry.name.startswith(IN_FLIGHT):
                self._descend(entry.name, descriptor, path, real + entry.name, depth)
        elif self._trusted:
            if not stat.S_ISLNK(status.st_mode):
                raise UnsafeTreeError(
                    f"{path!r} is a device, socket or FIFO: remove it, a cache has only files"
                )
            self._link(path, depth)

    def _descend(self, name: str, parent: int, path: str, real: str, depth: int) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, dir_fd=parent)
        except FileNotFoundError:
            return
        except OSError as error:
            if not self._trusted:
                return  # a workload may take away our right to look; what we cannot see is not counted
            error.filename = path
            raise
        with _closing(descriptor):
            self.directory(descriptor, path + "/", real + "/", depth + 1)

    def _link(self, path: str, depth: int) -> None:
        try:
            target = os.path.realpath(self._root / path, strict=True)
            status = Path(target).lstat()
        except OSError as error:
            raise UnsafeTreeError(
                f"the link {path!r} leads nowhere: remove it, or put the file in its place"
            ) from error
        if os.path.commonpath((self._root, target)) != str(self._root):
            raise UnsafeTreeError(f"the link {path!r} leaves the tree: put the file it names in its place")
        inside = os.path.relpath(target, self._root)
        if stat.S_ISREG(status.st_mode):
            self.files[path] = TreeFile(inside, status.st_size, status.st_mtime_ns)
        elif stat.S_ISDIR(status.st_mode):
            # Following a link to a directory above itself would never end.
            here = os.path.realpath(self._root / split(path)[0])
            if os.path.commonpath((here, target)) == target:
                raise UnsafeTreeError(f"the link {path!r} leads back to a directory that holds it: remove it")
            descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with _closing(descriptor):
                self.directory(descriptor, path + "/", inside + "/", depth + 1)
        else:
            raise UnsafeTreeError(f"the link {path!r} names a device, socket or FIFO: remove it")


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)
