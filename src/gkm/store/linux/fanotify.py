"""Every open(2) on one filesystem, seen without slowing who opens (fanotify(7)). Needs CAP_SYS_ADMIN.

Events carry an open descriptor, which gives the path also when the opener sits in another mount namespace.
Overlay refuses the newer kind of event that carries a name instead (FAN_REPORT_DFID_NAME, Linux 6.18).
"""

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from gkm.store.linux.syscalls import checked, libc

_FAN_CLOEXEC = 0x1
_FAN_NONBLOCK = 0x2
_FAN_UNLIMITED_QUEUE = 0x10
# Linux 6.13: an event whose file cannot be opened comes with the error in place of its descriptor.
_FAN_REPORT_FD_ERROR = 0x2000
_FAN_MARK_ADD = 0x1
_FAN_MARK_FLUSH = 0x80
_FAN_MARK_FILESYSTEM = 0x100
_FAN_OPEN = 0x20
_FAN_Q_OVERFLOW = 0x4000
_MISUSE = frozenset({errno.EBADF, errno.EFAULT, errno.EINVAL})
# Opening the file again for us failed because there is no such file any more: nothing that exists was missed.
_GONE = frozenset({errno.ENODEV, errno.ENOENT, errno.ENXIO, errno.ESRCH, errno.ESTALE})
_EVENT = struct.Struct("=IBBHQii")
# A read opens one descriptor per event: 128 stay well below the usual limit of 1024 open files.
_EVENTS = 128

libc.fanotify_init.argtypes = (ctypes.c_uint, ctypes.c_uint)
libc.fanotify_mark.argtypes = (
    ctypes.c_int,
    ctypes.c_uint,
    ctypes.c_uint64,
    ctypes.c_int,
    ctypes.c_char_p,
)


class OpenEvent(NamedTuple):
    """A file was opened; `fd` belongs to the receiver, who closes it."""

    fd: int
    pid: int


class Fanotify:
    """A group that listens to the filesystem mounted at `target`. Raises `OSError` where it may not.

    `unlimited` lifts the queue's limit (fs.fanotify.max_queued_events), at the price of kernel memory
    while the reader falls behind.
    """

    def __init__(self, target: str | os.PathLike[str], *, unlimited: bool = True) -> None:
        self._fd, told = _group(_FAN_UNLIMITED_QUEUE if unlimited else 0)
        # Without _FAN_REPORT_FD_ERROR a read that fails behind its first event hides the failure and loses
        # the event (fanotify_read in Linux's fs/notify/fanotify/fanotify_user.c): one event a read, then.
        self._read = (_EVENTS if told else 1) * _EVENT.size
        self.overflowed = False
        try:
            self._mark(_FAN_MARK_ADD | _FAN_MARK_FILESYSTEM, _FAN_OPEN, os.fsencode(target))
        except BaseException:
            os.close(self._fd)
            raise

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self._fd

    def events(self) -> Iterator[OpenEvent]:
        """All events that wait, but those of files that are gone. Sets `overflowed` when others were lost:
        the queue was full, or there was no descriptor or memory left to open a file with."""
        while True:
            try:
                data = os.read(self._fd, self._read)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _MISUSE:
                    raise
                self._failed(error.errno)  # the event is spent
                continue
            offset = 0
            while offset < len(data):
                length, _, _, _, mask, fd, pid = _EVENT.unpack_from(data, offset)
                offset += length
                if mask & _FAN_Q_OVERFLOW:
                    self.overflowed = True
                elif fd >= 0:
                    yield OpenEvent(fd, pid)
                else:
                    self._failed(-fd)

    def unmark(self) -> None:
        """Stop listening. What is queued stays queued: drain it, or unmounting fails with EBUSY."""
        self._mark(_FAN_MARK_FLUSH | _FAN_MARK_FILESYSTEM, 0, b"/")

    def close(self) -> None:
        """Drop the group and everything queued."""
        os.close(self._fd)

    def _failed(self, number: int | None) -> None:
        """An event came without a descriptor, for the reason `number` (an errno)."""
        if number not in _GONE:
            self.overflowed = True

    def _mark(self, flags: int, mask: int, path: bytes) -> None:
        at_fdcwd = -100
        checked(libc.fanotify_mark(self._fd, flags, mask, at_fdcwd, path), "fanotify_mark")


def _group(flags: int) -> tuple[int, bool]:
    """A new group, and whether its events tell why they have no descriptor."""
    flags |= _FAN_CLOEXEC | _FAN_NONBLOCK
    # O_NONBLOCK: the kernel opens the file again for us, and a fifo would hold us for ever.
    event_flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    fd = libc.fanotify_init(flags | _FAN_REPORT_FD_ERROR, event_flags)
    if fd >= 0:
        return fd, True
    return checked(libc.fanotify_init(flags, event_flags), "fanotify_init"), False
