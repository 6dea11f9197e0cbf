"""Whether something is mounted at a path, by one system call however many mounts the node has (statx(2))."""

import ctypes
import errno
import os
import struct

from gkm.store.linux import mountinfo
from gkm.store.linux.syscalls import libc

_AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW = 0x100
_AT_NO_AUTOMOUNT = 0x800
_AT_STATX_DONT_SYNC = 0x4000
_FLAGS = _AT_SYMLINK_NOFOLLOW | _AT_NO_AUTOMOUNT | _AT_STATX_DONT_SYNC
_ATTR_MOUNT_ROOT = 0x2000
"""Linux 5.8."""
_SIZE = 256
# stx_attributes and stx_attributes_mask of struct statx (linux/stat.h), the same on every architecture.
_ATTRIBUTES = struct.Struct("=8xQ40xQ")
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR})

libc.statx.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_char_p)


def is_mount_point(path: str | os.PathLike[str]) -> bool:
    """Whether a mount is seen at the absolute path, one of a directory bound within its filesystem too.

    A link is none, wherever it leads. Raises `OSError` where only /proc can tell and is missing.
    """
    buffer = ctypes.create_string_buffer(_SIZE)
    if libc.statx(_AT_FDCWD, os.fsencode(path), _FLAGS, 0, buffer) == 0:
        attributes, known = _ATTRIBUTES.unpack_from(buffer)
        if known & _ATTR_MOUNT_ROOT:
            return bool(attributes & _ATTR_MOUNT_ROOT)
    elif ctypes.get_errno() in _ABSENT:
        return False
    # An older kernel, or a filesystem that does not answer any more.
    return any(entry.target == os.fspath(path) for entry in mountinfo.mounts())
