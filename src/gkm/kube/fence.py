"""The fence: what stops a process that no longer leads from changing anything.

A paused process (SIGSTOP, a frozen VM, a long garbage collection) does not notice that its lease ran out. So
leadership is not a state that someone must remember to end, but a moment up to which it lasts, read from a
clock right before each mutating request is written to its connection.
"""

import time
from collections.abc import Callable

from gkm.kube.errors import NotLeaderError


def boot_clock() -> float:
    """Seconds since boot, time in which the machine was suspended included (unlike `time.monotonic`)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Fence:
    """Lets mutating requests pass until a moment on `clock`; closed when made."""

    def __init__(self, clock: Callable[[], float] = boot_clock) -> None:
        self._clock = clock
        self._until = float("-inf")

    def open_until(self, moment: float) -> None:
        """Let requests pass until `moment` (seconds on the fence's clock)."""
        self._until = moment

    def close(self) -> None:
        """Let nothing pass from now on."""
        self._until = float("-inf")

    @property
    def is_open(self) -> bool:
        """Whether a mutating request would pass now."""
        return self._clock() < self._until

    def check(self, request: str) -> None:
        """Return if `request` may be sent now.

        Raises:
            NotLeaderError: the fence is closed.
        """
        if not self.is_open:
            raise NotLeaderError(f"{request} was not sent: this process does not hold the lease")
