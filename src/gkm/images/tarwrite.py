"""The bytes of a tar archive, a function of names, sizes and executability alone.

POSIX.1-2001 (pax): ustar headers, and an extended header only where a name is long or not ASCII, or a file
has 8 GiB or more. Owner and time are 0 and owner names empty, so that nothing of the host shows. No links.
"""

BLOCK = 512
END = bytes(2 * BLOCK)
"""What ends an archive: two blocks of zeros (pax, "ustar Interchange Format")."""

_NAME_BYTES = 100
_LARGEST_SIZE = 8**11 - 1
_PAX_NAME = b"././@PaxHeader"


def directory_header(path: str) -> bytes:
    """The header of the directory at `path` (without trailing slash)."""
    return _member(f"{path}/", 0o755, 0, b"5")


def file_header(path: str, size: int, *, executable: bool) -> bytes:
    """The header of the file at `path`; `size` bytes and `padding(size)` must follow."""
    return _member(path, 0o755 if executable else 0o644, size, b"0")


def padding(size: int) -> bytes:
    """The zeros between a file of `size` bytes and the next header."""
    return bytes(-size % BLOCK)


def _member(name: str, mode: int, size: int, kind: bytes) -> bytes:
    records = b""
    field = name.encode("ascii", "replace")
    if len(field) > _NAME_BYTES or not name.isascii():
        records += _record(b"path", name.encode())
    if size > _LARGEST_SIZE:
        records += _record(b"size", str(size).encode())
        size = 0
    header = _header(field[:_NAME_BYTES], mode, size, kind)
    if not records:
        return header
    extended = _header(_PAX_NAME, 0o644, len(records), b"x")
    return extended + records + padding(len(records)) + header


def _record(key: bytes, value: bytes) -> bytes:
    """One pax record, ``LENGTH key=value\\n``, whose length counts its own digits."""
    rest = len(b" =\n") + len(key) + len(value)
    length = rest + len(str(rest))
    length = rest + len(str(length))
    return b"%d %s=%s\n" % (length, key, value)


def _header(name: bytes, mode: int, size: int, kind: bytes) -> bytes:
    """One ustar block. Field widths: pax, "ustar Interchange Format", table "ustar Header Block"."""
    fields = b"".join(
        (
            name.ljust(_NAME_BYTES, b"\0"),
            b"%07o\0" % mode,
            b"%07o\0" % 0,  # uid
            b"%07o\0" % 0,  # gid
            b"%011o\0" % size,
            b"%011o\0" % 0,  # mtime
            b" " * 8,  # the checksum is computed with spaces in its place
            kind,
            bytes(100),  # linkname
            b"ustar\00000",
            bytes(64),  # uname, gname
            b"%07o\0" % 0,  # devmajor
            b"%07o\0" % 0,  # devminor
            bytes(155 + 12),  # prefix, rest of the block
        )
    )
    return fields[:148] + b"%06o\0 " % sum(fields) + fields[156:]
