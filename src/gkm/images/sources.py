"""The files that go into an image: looked at once to fix their order, read again to write them.

A cache is often packed while its compiler still runs. So what was seen in the first reading is checked in the
second, byte for byte by digest: an image never holds half of one file and half of another.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from gkm.base.digests import digest_bytes
from gkm.images.machine import HEADER_BYTES, machine
from gkm.images.pack_errors import SourceChangedError, UnpackableError

_PIECE = 256 << 10


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as it was when it was first read."""

    path: str
    """Its path in the image."""
    source: Path | bytes
    size: int
    digest: str
    executable: bool
    machine: str | None
    """The CPU architecture of the host code that it is (`gkm.images.machine`)."""


def survey(files: Mapping[str, Path | bytes]) -> list[SourceFile]:
    """Read every file of `files` (image path to source) once.

    Raises:
        SourceChangedError: a file is not there, or not whole.
        UnpackableError: a source is no regular file.
        OSError: a source cannot be read.
    """
    return [_look(path, source) for path, source in files.items()]


def in_order(files: Sequence[SourceFile]) -> list[SourceFile]:
    """Sorted by path, but with identical files side by side, where the first of them stands.

    That is where a compressor's window finds them again; it depends on paths and contents alone.
    """
    by_path = sorted(files, key=lambda file: file.path)
    first: dict[str, str] = {}
    for file in by_path:
        first.setdefault(file.digest, file.path)
    return sorted(by_path, key=lambda file: first[file.digest])


def read_again(file: SourceFile) -> Iterator[memoryview]:
    """The content of `file`, exactly as long as it was; the last step raises where it is another.

    Raises:
        SourceChangedError: the file is not what it was.
        OSError: it cannot be read.
    """
    if isinstance(file.source, bytes):
        yield memoryview(file.source)
        return
    hasher, left = hashlib.sha256(), file.size
    with _open(file.path, file.source) as (content, _):
        for piece in _pieces(content, file.size):
            left -= len(piece)
            if left < 0:
                break
            hasher.update(piece)
            yield piece
    if left or file.digest != f"sha256:{hasher.hexdigest()}":
        raise SourceChangedError(
            f"{file.path} changed while it was packed: pack again when nothing writes to the cache"
        )


def _look(path: str, source: Path | bytes) -> SourceFile:
    if isinstance(source, bytes):
        told = machine(source[:HEADER_BYTES])
        return SourceFile(path, source, len(source), digest_bytes(source), executable=False, machine=told)
    hasher, size, header = hashlib.sha256(), 0, b""
    with _open(path, source) as (content, status):
        for piece in _pieces(content, status.st_size):
            header = header or bytes(piece[:HEADER_BYTES])
            hasher.update(piece)
            size += len(piece)
    executable = bool(status.st_mode & stat.S_IXUSR)
    return SourceFile(path, source, size, f"sha256:{hasher.hexdigest()}", executable, machine(header))


@contextmanager
def _open(path: str, source: Path) -> Iterator[tuple[FileIO, os.stat_result]]:
    """The regular file that `source` leads to, through links too, and its status."""
    try:
        # Without O_NONBLOCK the open of a named pipe waits for its other end.
        fd = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise SourceChangedError(
            f"{source} went away while it was packed: pack again when nothing writes to the cache"
        ) from error
    with FileIO(fd) as content:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise UnpackableError(f"{source} is not a regular file: leave {path} out of what is packed")
        yield content, status


def _pieces(content: FileIO, size: int) -> Iterator[memoryview]:
    """What is in `content`, about `size` bytes; each piece is valid until the next."""
    # Clearing a large buffer for each of many small files would take longer than reading them. One byte more
    # than announced, so that a file that grew shows it.
    buffer = memoryview(bytearray(min(size + 1, _PIECE)))
    while count := content.readinto(buffer):
        yield buffer[:count]
