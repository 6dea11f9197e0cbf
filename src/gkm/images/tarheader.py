"""One 512-byte tar header, read strictly.

Understands POSIX ustar headers and GNU's variant of them (base-256 sizes). Whatever the standards leave open,
and so two readers may read differently, is an error. Facts: POSIX pax, "ustar Interchange Format"; GNU tar
manual, "Basic Tar Format".
"""

from dataclasses import dataclass

from gkm.images.unpack_errors import CorruptLayerError, shown

BLOCK = 512

_OCTAL = frozenset(b"01234567")
_POSIX_MAGIC = b"ustar\x0000"
_GNU_MAGIC = b"ustar  \x00"


@dataclass(frozen=True, slots=True)
class Header:
    """What a header says; `name` is raw, as no rule says how a header encodes it."""

    name: bytes
    mode: int
    size: int
    """Bytes of content that follow, not rounded to blocks."""
    kind: bytes
    """The typeflag; ``0`` also where the header has NUL, as before POSIX."""


def parse_header(block: bytes) -> Header:
    """Read `block`, which is 512 bytes and not all zeros.

    Raises:
        CorruptLayerError: no header, a wrong checksum, or fields that are no numbers.
    """
    stored = _number(block[148:156], "checksum")
    if stored != sum(block[:148]) + 8 * ord(" ") + sum(block[156:]):
        raise CorruptLayerError("a header of the archive has a wrong checksum")
    magic = block[257:265]
    name = _text(block[:100])
    if magic == _POSIX_MAGIC:
        # GNU keeps times where POSIX has the prefix.
        prefix = _text(block[345:500])
        name = prefix + b"/" + name if prefix else name
    elif magic != _GNU_MAGIC:
        raise CorruptLayerError(f"neither a POSIX nor a GNU tar header: {shown(name)}")
    return Header(
        name=name,
        mode=_number(block[100:108], "mode"),
        size=_number(block[124:136], "size"),
        kind=block[156:157].replace(b"\0", b"0"),
    )


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _number(field: bytes, what: str) -> int:
    """An octal number, or GNU's base 256 where the first bit is set."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if not _OCTAL.issuperset(digits):
        raise CorruptLayerError(f"a header of the archive has no number as its {what}: {shown(field)}")
    return int(digits or b"0", 8)
