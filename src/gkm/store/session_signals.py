"""Which signals reach a supervised command, and how often: once.

gkm, its supervising process and the command are one foreground process group. A terminal sends Ctrl-C to all
three, so that one is not handed on; ``kill PID`` reaches gkm alone, so that is handed on, from process to
process. SIGTSTP, SIGTTIN, SIGTTOU and SIGCONT are left to the kernel: job control works on the group.
"""

import signal

from gkm.store.linux.signals import SignalEvent

FORWARDED = frozenset(
    {
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGTERM,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGWINCH,
    }
)
_FROM_TERMINAL = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH})


def to_be_handed_on(event: SignalEvent) -> bool:
    """Whether gkm hands `event` to its supervising process.

    A hang-up always: the kernel sends it to the session's leader alone, which gkm may be.
    """
    return not (event.from_kernel and event.number in _FROM_TERMINAL)


def from_starter(event: SignalEvent, starter: int) -> bool:
    """Whether the supervising process hands `event` to the command: only what gkm handed to it."""
    return not event.from_kernel and event.sender == starter
