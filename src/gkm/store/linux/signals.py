"""Signals as events that can be polled, with who sent them (signalfd(2), sigaction(2))."""

import contextlib
import ctypes
import os
import signal
import struct
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from gkm.store.linux.syscalls import checked, libc

_SFD_NONBLOCK = os.O_NONBLOCK
_SFD_CLOEXEC = os.O_CLOEXEC
_SI_KERNEL = 0x80
_RECORD = struct.Struct("=IiiI112x")  # ssi_signo, ssi_errno, ssi_code, ssi_pid of 128 bytes
_SIGSET_BYTES = 128  # sizeof(sigset_t) in glibc and musl


class SignalEvent(NamedTuple):
    """One signal that arrived."""

    number: int
    sender: int
    """The sending process, 0 where the kernel sent it or the sender is in another pid namespace."""
    from_kernel: bool
    """True for what a terminal sends to its whole foreground process group (Ctrl-C, hang-up)."""


class SignalQueue:
    """Receives the `numbers`, which the caller has blocked; `fileno()` is readable when one waits."""

    def __init__(self, numbers: Iterable[int]) -> None:
        mask = ctypes.create_string_buffer(_SIGSET_BYTES)
        libc.sigemptyset(mask)
        for number in numbers:
            checked(libc.sigaddset(mask, int(number)), "sigaddset")
        self._fd = checked(libc.signalfd(-1, mask, _SFD_NONBLOCK | _SFD_CLOEXEC), "signalfd")

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self._fd

    def read(self) -> list[SignalEvent]:
        """All signals that wait, possibly none."""
        events = []
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._fd, 32 * _RECORD.size):
                for number, _, code, sender in _RECORD.iter_unpack(data):
                    events.append(SignalEvent(number, sender, code == _SI_KERNEL))
        return events

    def close(self) -> None:
        """Close the descriptor; the signals stay blocked."""
        os.close(self._fd)


@contextlib.contextmanager
def blocked(numbers: Collection[signal.Signals]) -> Iterator[tuple[SignalQueue, frozenset[int]]]:
    """Within the block, `numbers` wait in a queue instead of interrupting; yields it and the mask before.

    Signals still queued at the end are dropped: they were meant for what ran within.
    """
    before = frozenset(int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, numbers))
    queue = SignalQueue(numbers)
    try:
        yield queue, before
    finally:
        queue.read()
        queue.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
