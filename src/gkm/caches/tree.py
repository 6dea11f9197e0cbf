"""A directory tree that was listed once: its files by relative path, read without ever leaving it.

Files are opened one step at a time below a directory descriptor, without following links, so that a name
swapped after the listing leads nowhere. `gkm.caches.walk` makes the listing.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from gkm.base.errors import GKMError, UsageError

_CHUNK = 1 << 20


class UnsafeTreeError(UsageError):
    """The tree holds what cannot be carried: a link that leaves it, a device, a name that is no text."""


class TreeTooLargeError(UsageError):
    """The tree exceeds the bounds within which GKM reads it."""


class TreeReadError(GKMError):
    """The operating system refused to read something in the tree; the cause is chained."""


@dataclass(frozen=True, slots=True)
class TreeFile:
    """A regular file of the tree: `real` is its path below the root with every link resolved."""

    real: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of a directory by relative POSIX path, sorted, and its directories with what lies in them.

    `lenient` trees answer None where a file cannot be read; others raise `TreeReadError`.
    """

    root: Path
    files: MappingProxyType[str, TreeFile]
    lenient: bool = False
    _children: dict[str, tuple[list[str], list[str]]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        children: dict[str, tuple[list[str], list[str]]] = {".": ([], [])}
        for path in self.files:
            directory, name = split(path)
            _ensure(children, directory)[0].append(name)
        for _, subdirectories in children.values():
            subdirectories.sort()
        object.__setattr__(self, "_children", children)

    @classmethod
    def of(cls, root: Path, paths: Iterable[str]) -> "Tree":
        """A lenient tree of files that are known to be below `root`; it knows none of their sizes."""
        return cls(root, MappingProxyType({path: TreeFile(path, 0, 0) for path in paths}), lenient=True)

    @property
    def directories(self) -> Iterator[str]:
        """Every directory that holds a file somewhere below; ``.`` is the root."""
        return iter(self._children)

    def files_in(self, directory: str) -> list[str]:
        """The names of the files directly in `directory`, sorted; none where there is no such directory."""
        return self._children[directory][0] if directory in self._children else []

    def directories_in(self, directory: str) -> list[str]:
        """The names of the directories directly in `directory`, sorted."""
        return self._children[directory][1] if directory in self._children else []

    def below(self, directory: str) -> Iterator[str]:
        """The paths of all files below `directory`, at any depth."""
        for name in self.files_in(directory):
            yield join(directory, name)
        for name in self.directories_in(directory):
            yield from self.below(join(directory, name))

    def exists(self, path: str) -> bool:
        """Whether `path` is a file or a directory of the tree."""
        return path in self.files or path in self._children

    def read(self, path: str, limit: int) -> bytes | None:
        """The content of `path`; None where it is longer than `limit` bytes, or unreadable in a lenient tree.

        Raises:
            TreeReadError: the file cannot be read and the tree is not lenient.
        """
        data = self.head(path, limit + 1)
        return None if data is None or len(data) > limit else data

    def head(self, path: str, limit: int) -> bytes | None:
        """At most the first `limit` bytes of `path`; otherwise as `read`."""
        try:
            return read_beneath(self.root, self.files[path].real, limit)
        except TreeReadError:
            if self.lenient:
                return None
            raise


def _ensure(children: dict[str, tuple[list[str], list[str]]], directory: str) -> tuple[list[str], list[str]]:
    known = children.get(directory)
    if known is None:
        known = children[directory] = ([], [])
        parent, name = split(directory)
        _ensure(children, parent)[1].append(name)
    return known


def join(directory: str, name: str) -> str:
    """`name` below `directory`, where ``.`` is the root."""
    return name if directory == "." else f"{directory}/{name}"


def split(path: str) -> tuple[str, str]:
    """The directory of `path` (``.`` for the root) and its last name."""
    directory, _, name = path.rpartition("/")
    return directory or ".", name


def ancestors(path: str) -> Iterator[str]:
    """The directories above `path`, nearest first, the root last."""
    while path != ".":
        path, _ = split(path)
        yield path


def open_beneath(root: Path, path: str) -> int:
    """A read-only descriptor of the regular file `path` below `root`, reached without following any link.

    Raises:
        OSError: it is not there, is no regular file, or a step of it is a link.
        UnsafeTreeError: `path` is not a relative path without ``.`` and ``..``.
    """
    steps = path.split("/")
    if any(step in {"", ".", ".."} for step in steps):
        raise UnsafeTreeError(f"{path!r} does not name a file below a directory")
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        for step in steps[:-1]:
            deeper = os.open(step, flags, dir_fd=directory)
            os.close(directory)
            directory = deeper
        # Without O_NONBLOCK a FIFO that took the file's place would hold us for ever.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(steps[-1], flags, dir_fd=directory)
    finally:
        os.close(directory)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(f"{path!r} is not a regular file any more")
    return file


def read_beneath(root: Path, path: str, limit: int) -> bytes:
    """At most the first `limit` bytes of the file `path` below `root`, as `open_beneath` reaches it.

    Raises:
        TreeReadError: it cannot be opened or read.
    """
    try:
        with os.fdopen(open_beneath(root, path), "rb", buffering=0) as file:
            pieces: list[bytes] = []
            while limit > 0 and (piece := file.read(min(limit, _CHUNK))):
                pieces.append(piece)
                limit -= len(piece)
            return b"".join(pieces)
    except OSError as error:
        raise TreeReadError(
            f"cannot read {path!r} below {root}: {error.strerror or error}; "
            "give GKM the rights to read the whole tree, and keep it unchanged meanwhile"
        ) from error
