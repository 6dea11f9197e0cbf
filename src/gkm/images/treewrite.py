"""Writes files and directories below one directory, and never anywhere else.

Every step goes through the descriptor of the directory above it, and no link is ever followed: whatever the
names say and whatever stands there, nothing outside the root can be reached. Files are always new.
"""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from gkm.images.unpack_errors import DuplicateMemberError, shown

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class UnpackedFile:
    """One file that was written."""

    path: str
    """Relative to the destination, POSIX."""
    bytes: int
    digest: str
    """``sha256:…`` of its content."""
    executable: bool


class TreeWriter:
    """Writes below the directory `root`, which must exist; a context manager, as it holds descriptors.

    With `open_to_all` directories, `root` too, get mode 0777 and files 0666 (0777 if executable) whatever the
    umask is; without, the umask takes its part of them, as for any new file.
    """

    def __init__(self, root: Path, *, open_to_all: bool = False) -> None:
        self._open_to_all = open_to_all
        # The caller's own path may lead through links; nothing below it may.
        self._root = os.open(root, _DIRECTORY & ~os.O_NOFOLLOW)
        # The way down to the directory last written to, with a descriptor for each step.
        self._steps: list[tuple[str, int]] = []
        if open_to_all:
            os.fchmod(self._root, 0o777)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(0)
        os.close(self._root)

    def make_directory(self, parts: tuple[str, ...]) -> None:
        """Make the directory and those above it; one that is there is no error.

        Raises:
            DuplicateMemberError: a file is in the way.
            OSError: the filesystem failed.
        """
        self._enter(parts)

    def write_file(
        self, parts: tuple[str, ...], content: Iterable[memoryview], *, executable: bool, replace: bool
    ) -> UnpackedFile:
        """Write a new file and the directories above it.

        With `replace`, a file that is there is removed first.

        Raises:
            DuplicateMemberError: something is there already.
            OSError: the filesystem failed.
        """
        parent, name = self._enter(parts[:-1]), parts[-1]
        mode = 0o777 if executable else 0o666
        try:
            if replace:
                os.unlink(name, dir_fd=parent)
            file = os.open(name, _NEW_FILE, mode, dir_fd=parent)
        except FileExistsError as error:
            raise DuplicateMemberError(
                f"the image holds two things of one name: {shown('/'.join(parts))}"
            ) from error
        hasher, size = hashlib.sha256(), 0
        try:
            for piece in content:
                hasher.update(piece)
                size += len(piece)
                _write_all(file, piece)
            if self._open_to_all:
                os.fchmod(file, mode)
        finally:
            os.close(file)
        return UnpackedFile("/".join(parts), size, f"sha256:{hasher.hexdigest()}", executable)

    def _enter(self, parts: tuple[str, ...]) -> int:
        """The descriptor of the directory `parts`, made where it is not there."""
        common = 0
        for (name, _), part in zip(self._steps, parts, strict=False):
            if name != part:
                break
            common += 1
        self._leave(common)
        directory = self._steps[-1][1] if self._steps else self._root
        for part in parts[common:]:
            directory = self._step(directory, part, parts)
            self._steps.append((part, directory))
        return directory

    def _leave(self, depth: int) -> None:
        """Close the steps below `depth`."""
        while len(self._steps) > depth:
            os.close(self._steps.pop()[1])

    def _step(self, parent: int, name: str, parts: tuple[str, ...]) -> int:
        # The reader has checked names; a name with a slash here would leave the one step that is guarded.
        assert name not in ("", ".", "..")
        assert "/" not in name
        made = True
        try:
            os.mkdir(name, 0o777, dir_fd=parent)
        except FileExistsError:
            made = False
        try:
            directory = os.open(name, _DIRECTORY, dir_fd=parent)
        except NotADirectoryError as error:
            raise DuplicateMemberError(
                f"the image needs a directory where it has a file: {shown('/'.join(parts))}"
            ) from error
        if made and self._open_to_all:
            os.fchmod(directory, 0o777)
        return directory


def _write_all(file: int, piece: memoryview) -> None:
    while piece:
        piece = piece[os.write(file, piece) :]
