"""A file as a block device (loop(4)). Needs CAP_SYS_ADMIN and the devices in /dev."""

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CONTROL = "/dev/loop-control"
# linux/loop.h
_LOOP_CTL_GET_FREE = 0x4C82
_LOOP_CONFIGURE = 0x4C0A
_LO_FLAGS_AUTOCLEAR = 4
# struct loop_config: fd, block_size, struct loop_info64 (232 bytes, lo_flags at its byte 52), 8 reserved words.
_CONFIG = struct.Struct("=II52xI176x64x")
_ATTEMPTS = 64


@contextmanager
def loop_device(file: Path) -> Iterator[str]:
    """A device of `file` for the length of a block, in which it should be mounted.

    The kernel frees the device with its last user: the mount, or this block, or this process's death.
    Raises `OSError` where there are no loop devices or none may be used.
    """
    backing = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        path, device = _configure(backing)
    finally:
        os.close(backing)
    try:
        yield path
    finally:
        os.close(device)


def _configure(backing: int) -> tuple[str, int]:
    control = os.open(_CONTROL, os.O_RDWR | os.O_CLOEXEC)
    try:
        for _ in range(_ATTEMPTS):
            path = f"/dev/loop{fcntl.ioctl(control, _LOOP_CTL_GET_FREE)}"
            device = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(device, _LOOP_CONFIGURE, _CONFIG.pack(backing, 0, _LO_FLAGS_AUTOCLEAR))
            except OSError as error:
                os.close(device)
                # Another process took it between the two calls.
                if error.errno != errno.EBUSY:
                    raise
            else:
                return path, device
    finally:
        os.close(control)
    raise OSError(errno.EBUSY, "no loop device stayed free")
