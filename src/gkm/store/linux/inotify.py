"""Opens seen by an ordinary user: one watch for each directory (inotify(7))."""

import ctypes
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from gkm.store.linux.syscalls import checked, libc

IN_OPEN = 0x20
IN_MOVED_TO = 0x80
IN_CREATE = 0x100
IN_Q_OVERFLOW = 0x4000
IN_IGNORED = 0x8000
IN_ONLYDIR = 0x0100_0000
IN_DONT_FOLLOW = 0x0200_0000
IN_ISDIR = 0x4000_0000

_EVENT = struct.Struct("=iIII")
_READ = 1 << 18

libc.inotify_add_watch.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)


class InotifyEvent(NamedTuple):
    """Something happened to `name` in the directory with watch number `watch`."""

    watch: int
    mask: int
    name: str


class Inotify:
    """A queue of events, at most fs.inotify.max_queued_events long. Raises `OSError`."""

    def __init__(self) -> None:
        self._fd = checked(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify_init1")

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self._fd

    def watch(self, directory: str, mask: int) -> int:
        """Watch `directory` and return the watch number; ENOSPC when fs.inotify.max_user_watches is reached."""
        flags = mask | IN_ONLYDIR | IN_DONT_FOLLOW
        return checked(libc.inotify_add_watch(self._fd, os.fsencode(directory), flags), "inotify_add_watch")

    def events(self) -> Iterator[InotifyEvent]:
        """All events that wait."""
        while True:
            try:
                data = os.read(self._fd, _READ)
            except BlockingIOError:
                return
            offset = 0
            while offset < len(data):
                watch, mask, _, length = _EVENT.unpack_from(data, offset)
                offset += _EVENT.size
                name = data[offset : offset + length].rstrip(b"\0")
                offset += length
                yield InotifyEvent(watch, mask, os.fsdecode(name))

    def close(self) -> None:
        """Drop the queue and all watches."""
        os.close(self._fd)
