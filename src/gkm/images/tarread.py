"""Reads a tar stream strictly: files and directories come out, everything else is an error by its name.

Python's `tarfile` is not used: it reads headers of any length into memory, understands sparse files and
links, and passes over damage. Memory here is bounded by one piece of the stream and one extended header.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gkm.images.limits import Limits
from gkm.images.members import split_name
from gkm.images.tarheader import BLOCK, Header, parse_header
from gkm.images.tarpax import Extension, decode_name, parse_records
from gkm.images.unpack_errors import (
    CorruptLayerError,
    DeviceError,
    HardLinkError,
    InvalidNameError,
    LayerError,
    SparseFileError,
    SymbolicLinkError,
    TooManyBytesError,
    TrailingDataError,
    TruncatedLayerError,
    UnknownMemberError,
    shown,
)

# Extended attributes can stand in a header; more than this is no description of one file.
_MAX_EXTENSION = 1 << 20
_MAX_EXTENSIONS = 3

_REFUSED: dict[bytes, tuple[type[LayerError], str]] = {
    b"1": (HardLinkError, "a hard link"),
    b"2": (SymbolicLinkError, "a symbolic link"),
    b"3": (DeviceError, "a character device"),
    b"4": (DeviceError, "a block device"),
    b"6": (DeviceError, "a named pipe"),
    b"S": (SparseFileError, "a sparse file"),
}


@dataclass(frozen=True, slots=True)
class Member:
    """One file or directory of an archive."""

    parts: tuple[str, ...]
    """The components of its name, checked; () is the archive's root directory."""
    directory: bool
    executable: bool
    size: int
    content: Iterator[memoryview]
    """The file's bytes, once, and only until the next member is asked for."""


def read_members(pieces: Iterator[bytes], limits: Limits, left: Callable[[], int]) -> Iterator[Member]:
    """The members of the archive that `pieces` holds, in order.

    `left` tells how many bytes may still come: a file that announces more is refused before its first byte.
    After the last member the rest of `pieces` is read and must be zeros.

    Raises:
        LayerError: the subclass that names what is wrong.
    """
    stream = _Stream(pieces)
    while (header := _next_header(stream)) is not None:
        header, extension = _with_extensions(stream, header)
        member = _member(stream, header, extension, limits)
        if member.size > left():
            raise TooManyBytesError(
                f"{shown('/'.join(member.parts))} alone has {member.size} bytes: "
                f"the image unpacks to more than {limits.bytes}"
            )
        yield member
        for _ in member.content:  # what the caller did not want
            pass
        stream.skip(-member.size % BLOCK)
    for rest in stream.rest():
        if rest.tobytes().strip(b"\0"):
            raise TrailingDataError("other bytes follow the archive")


def _next_header(stream: "_Stream") -> Header | None:
    """The next header; None at the archive's end."""
    block = stream.exactly(BLOCK)
    if block.strip(b"\0"):
        return parse_header(block)
    if stream.exactly(BLOCK).strip(b"\0"):
        raise CorruptLayerError("a block of zeros stands within the archive")
    return None


def _with_extensions(stream: "_Stream", header: Header) -> tuple[Header, Extension]:
    """Read the headers that only describe the next one; returns that one and what they said."""
    extension = Extension()
    for _ in range(_MAX_EXTENSIONS + 1):
        if header.kind not in b"xgLK":
            return header, extension
        if header.size > _MAX_EXTENSION:
            raise CorruptLayerError(f"an extended header has {header.size} bytes: no tool writes that")
        data = stream.exactly(header.size)
        stream.skip(-header.size % BLOCK)
        extension = _extended(header.kind, data, extension)
        following = _next_header(stream)
        if following is None:
            raise CorruptLayerError("the archive ends after an extended header")
        header = following
    raise CorruptLayerError("a member of the archive has too many extended headers")


def _extended(kind: bytes, data: bytes, before: Extension) -> Extension:
    if kind == b"K":  # the name a link points to (GNU): the link itself is refused next
        return before
    said = Extension(path=decode_name(data.removesuffix(b"\0"))) if kind == b"L" else parse_records(data)
    if kind == b"g":
        if said != Extension():
            raise CorruptLayerError("a global header names all members alike")
        return before
    if before != Extension():
        raise CorruptLayerError("two extended headers describe one member")
    return said


def _member(stream: "_Stream", header: Header, extension: Extension, limits: Limits) -> Member:
    name = decode_name(header.name) if extension.path is None else extension.path
    size = header.size if extension.size is None else extension.size
    if header.kind in _REFUSED:
        error, what = _REFUSED[header.kind]
        raise error(
            f"the image holds {what}, {shown(name)}: only files and directories are unpacked. "
            "Build it again, for example with `gkm pack`"
        )
    if header.kind not in (b"0", b"5"):
        raise UnknownMemberError(f"the image holds a member of kind {header.kind!r}: {shown(name)}")
    directory = header.kind == b"5"
    parts = split_name(name, limits)
    if directory and size:
        raise CorruptLayerError(f"a directory has content: {shown(name)}")
    if not directory and (not parts or name.endswith("/")):
        raise InvalidNameError(f"a file has a directory's name: {shown(name)}")
    return Member(parts, directory, bool(header.mode & 0o100), size, stream.content(size))


class _Stream:
    """Takes exact numbers of bytes from pieces of any size."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece = memoryview(b"")

    def _some(self, most: int) -> memoryview:
        """At least one byte and at most `most`."""
        while not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                raise TruncatedLayerError("the archive ends too early: fetch the image again")
            self._piece = memoryview(piece)
        some, self._piece = self._piece[:most], self._piece[most:]
        return some

    def content(self, size: int) -> Iterator[memoryview]:
        """The next `size` bytes as they come."""
        while size:
            some = self._some(size)
            size -= len(some)
            yield some

    def exactly(self, size: int) -> bytes:
        """The next `size` bytes in one; only for sizes that are bounded."""
        return b"".join(self.content(size))

    def skip(self, size: int) -> None:
        """Pass over the next `size` bytes."""
        for _ in self.content(size):
            pass

    def rest(self) -> Iterator[memoryview]:
        """All that is left."""
        yield self._piece
        self._piece = memoryview(b"")
        for piece in self._pieces:
            yield memoryview(piece)
