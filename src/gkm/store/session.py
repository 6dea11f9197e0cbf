"""A command in a private view, as if it had been started without us.

The view is mounted in a mount namespace of a supervising process (`gkm.store.supervise`), so no kill, of
whatever process, leaves a mount behind. Standard streams, terminal, process group, working directory, open
descriptors, signals and exit status pass through.
"""

import errno
import os
import select
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from gkm.store.attach import attach, take_stock
from gkm.store.errors import (
    CommandNotExecutableError,
    CommandNotFoundError,
    MountError,
    SessionError,
)
from gkm.store.linux.signals import SignalQueue, blocked
from gkm.store.mode import Mode
from gkm.store.observation import Observation
from gkm.store.prepared import PreparedMount
from gkm.store.request import Report, Request
from gkm.store.session_signals import FORWARDED, to_be_handed_on


@dataclass(frozen=True, slots=True)
class SessionResult:
    """How the command ended and what it used."""

    returncode: int
    """Its exit status, or minus the number of the signal that ended it."""
    seconds: float
    """From its start to its end, without preparation."""
    mode: Mode
    observation: Observation

    @property
    def exit_status(self) -> int:
        """As a shell gives it: 128 + n for a command that signal n ended."""
        return self.returncode if self.returncode >= 0 else 128 - self.returncode


def run_in_view(prepared: PreparedMount, argv: Sequence[str], env: Mapping[str, str]) -> SessionResult:
    """Run `argv` with the whole environment `env` and the view at `prepared.target`; wait for its end.

    Call it once for a prepared view, from the main thread, with no other thread that takes signals: while the
    command runs they are its signals. Afterwards `prepared.upper` holds what was added or changed, and the
    view is detached; `discard` it.

    Raises:
        CommandNotFoundError, CommandNotExecutableError: the command did not start.
        MountError: the view could not be mounted; the command did not start.
        SessionError: the supervising process died, and with it the command.
        StoreError: the disk failed.
    """
    assert threading.current_thread() is threading.main_thread(), "signals reach the main thread alone"
    assert argv, "an empty command cannot be run"
    if prepared.mode is Mode.COPY:
        attach(prepared)
    report_path = prepared.directory / "report.json"
    with blocked(FORWARDED) as (signals, mask):
        request = Request(
            mode=prepared.mode,
            overlay=prepared.overlay,
            argv=tuple(argv),
            env=dict(env),
            mask=tuple(mask),
            payload=tuple(prepared.payload),
            report=str(report_path),
        )
        status = _supervise(request, prepared.claim.fileno(), signals)
    report = Report.read(report_path)
    if report is None:
        raise SessionError(
            f"the process supervising {argv[0]!r} died (status {status}); the command was killed with it"
        )
    if report.failure is not None:
        raise _failure(report, argv[0])
    take_stock(prepared)
    kind = cast(Literal["complete", "partial", "none"], report.kind)
    observation = Observation(kind, report.reason, frozenset(report.opened))
    return SessionResult(report.returncode, report.seconds, prepared.mode, observation)


def _supervise(request: Request, claim_fd: int, signals: SignalQueue) -> int:
    """Run the supervising process to its end, handing signals on; returns its status."""
    reading, writing = os.pipe()
    passed = (reading, claim_fd)
    try:
        for fd in passed:
            os.set_inheritable(fd, True)
        program = [sys.executable, "-P", "-m", "gkm.store.supervise", *map(str, passed)]
        # close_fds=False: what the caller of gkm meant to be inherited reaches the command.
        process = subprocess.Popen(program, close_fds=False)
    finally:
        os.set_inheritable(claim_fd, False)
        os.close(reading)
    with process:
        try:
            request.send(writing)
            _until_ended(process, signals)
        except BrokenPipeError:
            pass  # it died at once; its status and missing report say so
        finally:
            os.close(writing)  # it takes this as our death, should an error have brought us here
    return process.returncode


def _until_ended(process: subprocess.Popen[bytes], signals: SignalQueue) -> None:
    ended = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        poll.register(signals.fileno(), select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            for event in signals.read():
                if to_be_handed_on(event):
                    process.send_signal(event.number)
            if ended in ready:
                return
    finally:
        os.close(ended)


def _failure(report: Report, name: str) -> MountError | CommandNotFoundError | CommandNotExecutableError:
    if report.failure == "mount":
        return MountError(report.message)
    if report.errno == errno.ENOENT:
        return CommandNotFoundError(f"{name!r}: no such program")
    return CommandNotExecutableError(f"{name!r} cannot be executed: {report.message}")
