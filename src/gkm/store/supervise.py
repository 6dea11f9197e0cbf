"""``python -m gkm.store.supervise PIPE``: one command in one view, in a process of its own.

Started by `gkm.store.session`, from which it inherits the terminal, the process group and the working
directory, and reads a `Request` from the pipe. The order is what matters:

1. a namespace of its own, the mount, the watch, the command;
2. while it runs: take in opens, hand on signals, and ask it to end when our starter has died;
3. the command has ended: stop watching, take in what is queued, unmount, report.

Whatever kills this process ends the command (it dies with its parent) and so the namespace and the mount.
"""

import contextlib
import errno
import os
import select
import signal
import sys
import time
from pathlib import Path

from gkm.store.command import start_command
from gkm.store.enter import enter_and_mount
from gkm.store.errors import MountBusyError, MountError
from gkm.store.linux.signals import SignalQueue
from gkm.store.mode import Mode
from gkm.store.observation import Watch
from gkm.store.observe import watch
from gkm.store.overlay import unmount
from gkm.store.request import Report, Request
from gkm.store.session_signals import FORWARDED, from_starter


def main() -> None:
    """Serve the one request, and leave without Python's farewell: nothing is left to be done."""
    pipe = int(sys.argv[1])
    for text in sys.argv[1:]:
        os.set_inheritable(int(text), False)  # ours and the claim's lock; the command must not keep them
    # Where a parent left it ignored, a child's status would be lost.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request = Request.receive(pipe)
    _serve(request, pipe).write(request.report)
    os._exit(0)


def _serve(request: Request, pipe: int) -> Report:
    target = request.overlay.target
    here = _working_directory()
    try:
        enter_and_mount(request.mode, request.overlay)
    except MountError as error:
        return Report(failure="mount", message=str(error))
    # Where the mount covers the working directory, the same path now names the view.
    with contextlib.suppress(OSError):
        os.chdir(here)
    signals = SignalQueue(FORWARDED)
    observation = watch(Path(target), request.payload, mounted=request.mode is not Mode.COPY)
    # What came before there was a command is the command's, whoever sent it: a terminal asks only once.
    early = signals.read()
    started = time.monotonic()
    try:
        pid = start_command(
            request.argv, request.env, request.mask, drop_capabilities=request.mode is Mode.USER_OVERLAY
        )
    except OSError as error:
        observation.finish()
        _leave(request)
        return Report(failure="start", message=error.strerror or str(error), errno=error.errno or errno.EIO)
    for event in early:
        os.kill(pid, event.number)
    returncode = _wait(pid, pipe, observation, signals)
    seconds = time.monotonic() - started
    seen = observation.finish()
    _leave(request)
    return Report(
        returncode=returncode,
        seconds=seconds,
        kind=seen.kind,
        reason=seen.reason,
        opened=tuple(sorted(seen.opened)),
    )


def _working_directory() -> str:
    """Its path; an empty one, to which nobody can change, where it was deleted."""
    try:
        return os.getcwd()  # noqa: PTH109  text in, text out
    except OSError:
        return ""


def _wait(pid: int, pipe: int, observation: Watch, signals: SignalQueue) -> int:
    """Serve until the command has ended; returns its exit status, or minus the signal that ended it."""
    ended = os.pidfd_open(pid)
    poll = select.poll()
    for fd in (signals.fileno(), ended, pipe, observation.fileno()):
        if fd >= 0:
            poll.register(fd, select.POLLIN)
    starter = os.getppid()
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if observation.fileno() in ready:
            observation.drain()
        for event in signals.read():
            if from_starter(event, starter):
                signal.pidfd_send_signal(ended, event.number)
        if pipe in ready:
            # The pipe's other end closes with our starter: what it wanted, nobody wants any more.
            poll.unregister(pipe)
            signal.pidfd_send_signal(ended, signal.SIGTERM)
        if ended in ready:
            _, status = os.waitpid(pid, 0)
            return os.waitstatus_to_exitcode(status)


def _leave(request: Request) -> None:
    if request.mode is not Mode.COPY:
        # A process that the command left behind keeps the mount; out of sight it goes with that process.
        with contextlib.suppress(MountError):
            try:
                unmount(request.overlay.target)
            except MountBusyError:
                unmount(request.overlay.target, lazily=True)


if __name__ == "__main__":
    main()
