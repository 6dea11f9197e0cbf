"""Unpacks the layers of a cache image into a directory, believing nothing of what they say.

What must hold, and is checked in this order for every byte:

(0) the compressed bytes are those that the manifest names: the *caller* hands in streams that check this and
    raise (`gkm.images.verify`); they are always read to their end;
(1) the media type is one of a layer, and the stream decompresses without damage, rest or excess;
(2) the uncompressed bytes are those that the config names (its diff ID), where it names any;
(3) the archive holds regular files and directories only, each with a plain relative name, none twice;
(4) entries, bytes, expansion, depth and names stay within the limits;
(5) files are made new, step by step below the destination, following nothing;
(6) after any failure nothing is left.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gkm.base.files import remove_tree
from gkm.images.decompression import Meter, decompressed, layer_compression
from gkm.images.limits import Limits
from gkm.images.tarread import read_members
from gkm.images.treewrite import TreeWriter, UnpackedFile
from gkm.images.unpack_errors import (
    DestinationNotEmptyError,
    DiffIDMismatchError,
    DuplicateMemberError,
    TooManyEntriesError,
    shown,
)


@dataclass(frozen=True, slots=True)
class LayerStream:
    """One layer to unpack."""

    media_type: str
    chunks: Iterable[bytes]
    """The blob's bytes as they are stored; raises at its end if they are not the blob's (rule 0)."""
    diff_id: str | None = None
    """The digest of the uncompressed bytes, from the image's config; None where the config has none."""


@dataclass(frozen=True, slots=True)
class UnpackResult:
    """What was written."""

    members: tuple[UnpackedFile, ...]
    """Every file in the destination, sorted by path."""

    @property
    def files(self) -> int:
        """How many files there are."""
        return len(self.members)

    @property
    def bytes(self) -> int:
        """The sum of their sizes."""
        return sum(member.bytes for member in self.members)


def unpack(
    layers: Sequence[LayerStream],
    destination: Path,
    *,
    select: Callable[[str], str | None],
    limits: Limits | None = None,
    open_to_all: bool = False,
) -> UnpackResult:
    """Write the files of `layers`, lowest first, below `destination`.

    `destination` is an empty directory, or is made (its parent must exist). `select` maps a member's name
    (without ``./``) to its path below `destination`; None or an empty path leaves it out, but what is left
    out is checked like the rest. A file of a later layer takes the place of one of an earlier layer. Whether
    a file is executable is kept; owner, times, other modes and attributes are not. With `open_to_all` whoever
    can reach the tree may write to it, else the umask decides (`gkm.images.treewrite.TreeWriter`).

    Blocks: call it in a thread (`gkm.images.bridge` does).

    Raises:
        DestinationNotEmptyError: `destination` cannot take a fresh tree.
        LayerError: the image is refused; the subclass says why.
        OSError: the filesystem failed (full, read-only, a name it does not take).
        Exception: whatever a layer's `chunks` raise.
    """
    limits = limits or Limits()
    if len(layers) > limits.layers:
        raise TooManyEntriesError(f"the image has {len(layers)} layers, more than {limits.layers}")
    made = _prepare(destination)
    try:
        with TreeWriter(destination, open_to_all=open_to_all) as writer:
            unpacking = _Unpacking(writer, select, limits)
            for layer in layers:
                unpacking.layer(layer)
    except BaseException as error:
        _clear(destination, made=made, because=error)
        raise
    return UnpackResult(tuple(sorted(unpacking.written.values(), key=lambda file: file.path)))


class _Unpacking:
    """What one call of `unpack` knows across layers."""

    def __init__(self, writer: TreeWriter, select: Callable[[str], str | None], limits: Limits) -> None:
        self._writer = writer
        self._select = select
        self._limits = limits
        self._meter = Meter(limits)
        self._entries = 0
        self._names = 0
        self.written: dict[str, UnpackedFile] = {}

    def layer(self, layer: LayerStream) -> None:
        hasher = hashlib.sha256()
        compression = layer_compression(layer.media_type)
        pieces = _hashed(decompressed(layer.chunks, compression, self._meter), hasher)
        names: set[str] = set()
        paths: set[str] = set()
        for member in read_members(pieces, self._limits, lambda: self._meter.left):
            name = "/".join(member.parts)
            self._count(name)
            if not member.directory:
                _add(name, names)
            path = self._select(name) if name else None
            if not path:
                continue
            parts = tuple(path.split("/"))
            if member.directory:  # named twice is harmless, and some tools do it
                self._writer.make_directory(parts)
                continue
            _add(path, paths)
            self.written[path] = self._writer.write_file(
                parts, member.content, executable=member.executable, replace=path in self.written
            )
        diff_id = f"sha256:{hasher.hexdigest()}"
        if layer.diff_id not in (None, diff_id):
            raise DiffIDMismatchError(
                f"a layer unpacks to {diff_id}, but the image's config says {layer.diff_id}: build it again"
            )

    def _count(self, name: str) -> None:
        self._entries += 1
        self._names += len(name)
        if self._entries > self._limits.entries:
            raise TooManyEntriesError(f"the image holds more than {self._limits.entries} entries")
        if self._names > self._limits.all_names:
            raise TooManyEntriesError(f"the image's names have more than {self._limits.all_names} characters")


def discard(destination: Path) -> None:
    """Remove all that is below `destination`. Raises `OSError` for what stays."""
    for child in destination.iterdir():
        remove_tree(child)


def _add(name: str, names: set[str]) -> None:
    if name in names:
        raise DuplicateMemberError(f"a layer holds {shown(name)} twice")
    names.add(name)


def _hashed(pieces: Iterable[bytes], hasher: "hashlib._Hash") -> Iterator[bytes]:
    for piece in pieces:
        hasher.update(piece)
        yield piece


def _prepare(destination: Path) -> bool:
    """See that `destination` is an empty directory; returns whether it was made."""
    try:
        destination.mkdir()
    except FileExistsError:
        pass
    else:
        return True
    if not destination.is_dir() or any(destination.iterdir()):
        raise DestinationNotEmptyError(
            f"{destination} is not an empty directory: name one that is, or a new one"
        )
    return False


def _clear(destination: Path, *, made: bool, because: BaseException) -> None:
    """Take back all that was written. What stays is told beside the failure, not instead of it."""
    try:
        if made:
            remove_tree(destination)
            return
        discard(destination)
    except OSError as error:
        because.add_note(f"{destination} could not be emptied again: {error}")
