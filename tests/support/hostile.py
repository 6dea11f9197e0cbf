"""A named corpus of archives that must be refused, each with the class that says why."""

from dataclasses import dataclass

from gkm.images import unpack_errors as errors
from gkm.images.limits import Limits
from gkm.images.unpack_errors import LayerError
from support.archives import END, directory, file, header, joined, padded, pax, with_checksum


@dataclass(frozen=True)
class Hostile:
    """An uncompressed archive and what unpacking it must raise."""

    archive: bytes
    error: type[LayerError]
    limits: Limits | None = None


def _field(start: int, value: bytes) -> bytes:
    """A file's header with bytes changed, and a right checksum."""
    block = bytearray(header("k"))
    block[start : start + len(value)] = value
    return with_checksum(block)


def _member(block: bytes) -> bytes:
    return file("before") + block + END


_SMALL = Limits(entries=3, bytes=8192, depth=3, component_bytes=10, path_bytes=20, all_names=25)

HOSTILE: dict[str, Hostile] = {
    # names that lead elsewhere
    "absolute": Hostile(_member(file("/etc/cron.d/x")), errors.AbsolutePathError),
    "absolute-pax": Hostile(_member(pax({"path": "/x"}) + file("k")), errors.AbsolutePathError),
    "absolute-double-slash": Hostile(_member(file("//x")), errors.AbsolutePathError),
    "absolute-directory": Hostile(_member(directory("/tmp")), errors.AbsolutePathError),
    "absolute-ustar-prefix": Hostile(_member(_field(345, b"/tmp")), errors.AbsolutePathError),
    "traversal": Hostile(_member(file("../x")), errors.PathTraversalError),
    "traversal-inside": Hostile(_member(file("a/../../x")), errors.PathTraversalError),
    "traversal-at-the-end": Hostile(_member(directory("a/..")), errors.PathTraversalError),
    "traversal-within-the-tree": Hostile(_member(file("a/../x")), errors.PathTraversalError),
    "traversal-after-dot": Hostile(_member(file("./../x")), errors.PathTraversalError),
    "traversal-pax": Hostile(_member(pax({"path": "a/../../x"}) + file("k")), errors.PathTraversalError),
    "traversal-gnu-long-name": Hostile(
        _member(header("L", size=8, kind=b"L") + padded(b"a/../..\0") + file("k")), errors.PathTraversalError
    ),
    # names that two readers could read differently, or that write to terminals
    "empty-component": Hostile(_member(file("a//b")), errors.InvalidNameError),
    "dot-component": Hostile(_member(file("a/./b")), errors.InvalidNameError),
    "empty-name": Hostile(_member(file("")), errors.InvalidNameError),
    "root-as-file": Hostile(_member(file("./")), errors.InvalidNameError),
    "directory-name-on-a-file": Hostile(_member(file("a/")), errors.InvalidNameError),
    "newline": Hostile(_member(file("a\nb")), errors.InvalidNameError),
    "escape-sequence": Hostile(_member(file("\x1b[2Jb")), errors.InvalidNameError),
    "c1-control": Hostile(_member(file("a\x9bb")), errors.InvalidNameError),
    "nul-pax": Hostile(_member(pax({"path": b"a\0b"}) + file("k")), errors.InvalidNameError),
    "not-utf-8": Hostile(_member(file(b"\xff\xfe")), errors.InvalidNameError),
    "not-utf-8-pax": Hostile(_member(pax({"path": b"\xff"}) + file("k")), errors.InvalidNameError),
    # what is neither file nor directory
    "symbolic-link": Hostile(_member(header("k", kind=b"2", link="/etc/passwd")), errors.SymbolicLinkError),
    "symbolic-link-inside": Hostile(_member(header("k", kind=b"2", link="before")), errors.SymbolicLinkError),
    "symbolic-link-then-file-through-it": Hostile(
        _member(header("d", kind=b"2", link="/tmp") + file("d/x")), errors.SymbolicLinkError
    ),
    "symbolic-link-gnu-long-target": Hostile(
        _member(header("K", size=7, kind=b"K") + padded(b"/tmp/x\0") + header("k", kind=b"2")),
        errors.SymbolicLinkError,
    ),
    "hard-link": Hostile(_member(header("k", kind=b"1", link="before")), errors.HardLinkError),
    "hard-link-outside": Hostile(_member(header("k", kind=b"1", link="/etc/shadow")), errors.HardLinkError),
    "character-device": Hostile(_member(header("k", kind=b"3")), errors.DeviceError),
    "block-device": Hostile(_member(header("k", kind=b"4")), errors.DeviceError),
    "named-pipe": Hostile(_member(header("k", kind=b"6")), errors.DeviceError),
    "sparse-old-gnu": Hostile(_member(header("k", kind=b"S")), errors.SparseFileError),
    "sparse-pax": Hostile(
        _member(pax({"GNU.sparse.major": "1", "GNU.sparse.realsize": "999999999999"}) + file("k")),
        errors.SparseFileError,
    ),
    "contiguous-file": Hostile(_member(header("k", kind=b"7")), errors.UnknownMemberError),
    "multi-volume": Hostile(_member(header("k", kind=b"M")), errors.UnknownMemberError),
    "solaris-acl": Hostile(_member(header("k", kind=b"A")), errors.UnknownMemberError),
    "whiteout": Hostile(_member(file("a/.wh.b", b"")), errors.WhiteoutError),
    "whiteout-opaque": Hostile(_member(file("a/.wh..wh..opq", b"")), errors.WhiteoutError),
    # two of one name
    "duplicate": Hostile(_member(file("before", b"other")), errors.DuplicateMemberError),
    "duplicate-by-dot": Hostile(_member(file("./before")), errors.DuplicateMemberError),
    "duplicate-by-pax": Hostile(_member(pax({"path": "before"}) + file("k")), errors.DuplicateMemberError),
    "file-where-a-directory-is": Hostile(_member(directory("d") + file("d")), errors.DuplicateMemberError),
    "directory-where-a-file-is": Hostile(_member(directory("before")), errors.DuplicateMemberError),
    "file-below-a-file": Hostile(_member(file("before/x")), errors.DuplicateMemberError),
    # too much
    "entries": Hostile(joined(file(str(n), b"") for n in range(4)), errors.TooManyEntriesError, _SMALL),
    "entries-directories": Hostile(
        joined(directory(str(n)) for n in range(4)), errors.TooManyEntriesError, _SMALL
    ),
    "entries-all-names": Hostile(
        joined(file(f"{n}/23456789", b"") for n in range(3)), errors.TooManyEntriesError, _SMALL
    ),
    "bytes": Hostile(
        joined([file("a", bytes(4000)), file("b", bytes(4000))]), errors.TooManyBytesError, _SMALL
    ),
    "bytes-announced": Hostile(header("k", size=8**11 - 1), errors.TooManyBytesError, _SMALL),
    "bytes-announced-pax": Hostile(pax({"size": "9" * 20}) + header("k"), errors.TooManyBytesError),
    "bytes-after-the-end": Hostile(file("k") + bytes(10_000), errors.TooManyBytesError, _SMALL),
    "depth": Hostile(_member(file("a/b/c/d")), errors.TooDeepError, _SMALL),
    "depth-default": Hostile(_member(pax({"path": "d/" * 64 + "f"}) + file("k")), errors.TooDeepError),
    "long-component": Hostile(_member(file("a/" + "x" * 11)), errors.NameTooLongError, _SMALL),
    "long-component-utf-8": Hostile(_member(file("ß" * 6)), errors.NameTooLongError, _SMALL),
    "long-component-default": Hostile(_member(pax({"path": "x" * 256}) + file("k")), errors.NameTooLongError),
    "long-path": Hostile(_member(pax({"path": "x/" * 2000 + "f"}) + file("k")), errors.NameTooLongError),
    "long-extension": Hostile(header("x", size=8**11 - 1, kind=b"x"), errors.CorruptLayerError),
    "long-gnu-name": Hostile(header("L", size=2 << 20, kind=b"L"), errors.CorruptLayerError),
    # damage
    "no-archive": Hostile(b"#!/bin/sh\necho this is no archive\n" * 100, errors.CorruptLayerError),
    "empty": Hostile(b"", errors.TruncatedLayerError),
    "no-end": Hostile(file("k"), errors.TruncatedLayerError),
    "half-an-end": Hostile(file("k") + bytes(512), errors.TruncatedLayerError),
    "end-inside": Hostile(file("k") + bytes(512) + file("l") + END, errors.CorruptLayerError),
    "cut-in-a-file": Hostile(file("k", b"x" * 5000)[:3000], errors.TruncatedLayerError),
    "cut-in-a-header": Hostile(file("k") + header("l")[:100], errors.TruncatedLayerError),
    "trailing-text": Hostile(file("k") + END + b"#!/bin/sh", errors.TrailingDataError),
    "trailing-archive": Hostile(file("k") + END + file("l") + END, errors.TrailingDataError),
    "trailing-after-padding": Hostile(file("k") + END + bytes(10240) + b"x", errors.TrailingDataError),
    "wrong-checksum": Hostile(_member(header("k")[:-1] + b"x"), errors.CorruptLayerError),
    "no-magic": Hostile(_member(_field(257, bytes(8))), errors.CorruptLayerError),
    "size-no-number": Hostile(_member(_field(124, b"0x10")), errors.CorruptLayerError),
    "size-negative": Hostile(_member(_field(124, b"\xff" * 12)), errors.CorruptLayerError),
    "mode-no-number": Hostile(_member(_field(100, b"rwxr-xr")), errors.CorruptLayerError),
    "directory-with-content": Hostile(
        _member(header("d/", kind=b"5", size=1) + padded(b"x")), errors.CorruptLayerError
    ),
    "pax-no-record": Hostile(
        _member(header("x", size=5, kind=b"x") + padded(b"hello") + file("k")), errors.CorruptLayerError
    ),
    "pax-length-too-long": Hostile(
        _member(header("x", size=9, kind=b"x") + padded(b"99 path=x\n"[:9]) + file("k")),
        errors.CorruptLayerError,
    ),
    "pax-length-zero": Hostile(
        _member(header("x", size=9, kind=b"x") + padded(b"0 path=x\n") + file("k")), errors.CorruptLayerError
    ),
    "pax-path-twice": Hostile(
        _member(pax({"path": "a"})[:512] + padded(b"10 path=a\n" * 2) + file("k")), errors.CorruptLayerError
    ),
    "pax-empty-path": Hostile(_member(pax({"path": ""}) + file("k")), errors.CorruptLayerError),
    "pax-size-no-number": Hostile(_member(pax({"size": "-1"}) + file("k")), errors.CorruptLayerError),
    "pax-and-gnu-name": Hostile(
        _member(pax({"path": "a"}) + header("L", size=2, kind=b"L") + padded(b"b\0") + file("k")),
        errors.CorruptLayerError,
    ),
    "pax-global-path": Hostile(_member(pax({"path": "a"}, kind=b"g") + file("k")), errors.CorruptLayerError),
    "pax-before-the-end": Hostile(pax({"path": "a"}) + END, errors.CorruptLayerError),
    "pax-without-end": Hostile(_member(pax({"comment": "x"}) * 4 + file("k")), errors.CorruptLayerError),
}
