"""The records of a pax extended header: of all that they may say, only a member's path and size are taken.

Format: POSIX pax, "pax Extended Header": lines ``LENGTH key=value``, where LENGTH counts the whole line.
"""

from dataclasses import dataclass

from gkm.images.unpack_errors import CorruptLayerError, SparseFileError, shown

# Enough for any size of 64 bits.
_MAX_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Extension:
    """What extended headers say about the member that follows; None where they are silent."""

    path: str | None = None
    size: int | None = None


def parse_records(data: bytes) -> Extension:
    """Read the content of an extended header; times, owners, attributes and comments are passed over.

    Raises:
        CorruptLayerError: not records, one key twice, or a path or size that is none.
        SparseFileError: a record in the ``GNU.sparse.`` namespace (GNU tar manual, "PAX 1, Sparse Files").
    """
    found: dict[bytes, bytes] = {}
    start = 0
    while start < len(data):
        # An index, not ever shorter copies of `data`: a megabyte of tiny records must stay cheap.
        space = data.find(b" ", start, start + _MAX_DIGITS)
        digits = data[start:space] if space > 0 else b""
        end = start + int(digits) if digits.isdigit() else 0
        key, equals, value = data[space + 1 : end].partition(b"=")
        if not equals or end > len(data) or not value.endswith(b"\n"):
            raise CorruptLayerError("an extended header of the archive is malformed")
        start = end
        if key.startswith(b"GNU.sparse."):
            raise SparseFileError("the image holds a sparse file: pack the cache without sparse files")
        if key in found:
            raise CorruptLayerError(f"an extended header says {shown(key)} twice")
        found[key] = value[:-1]
    return Extension(path=_path(found.get(b"path")), size=_size(found.get(b"size")))


def _path(value: bytes | None) -> str | None:
    if value is None:
        return None
    if not value:
        raise CorruptLayerError("an extended header takes a member's name away")
    return decode_name(value)


def _size(value: bytes | None) -> int | None:
    if value is None:
        return None
    if not value.isdigit() or len(value) > _MAX_DIGITS:
        raise CorruptLayerError(f"an extended header has no number as a size: {shown(value)}")
    return int(value)


def decode_name(name: bytes) -> str:
    """`name` as text, with bytes that are not UTF-8 as lone surrogates: `split_name` refuses those."""
    return name.decode("utf-8", "surrogateescape")
