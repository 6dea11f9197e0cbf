"""Start processes that outlive the caller, find them again, and end only those.

A pid alone may be another process tomorrow. An identity is pid, start time and boot (proc(5), `starttime`;
``/proc/sys/kernel/random/boot_id``), and every signal goes through a pidfd that was checked against it.
Every process also carries the cluster's folder in its environment, so that one whose identity was never
written down (the starter was killed in between) is found as well.
"""

import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from devcluster.errors import LeftoverError
from gkm.base.files import write_atomic

MEMBER = "GKM_DEVCLUSTER_MEMBER"  # environment of everything started here: the cluster's folder
_END_SECONDS = 20.0


class Identity(msgspec.Struct, frozen=True):
    """One process, for as long as the machine exists."""

    pid: int
    start: int  # clock ticks since boot
    boot: str

    @classmethod
    def of(cls, pid: int) -> "Identity | None":
        """The identity of the living process `pid`; None if there is none (a zombie is none)."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        # The command name stands in parentheses and may hold anything, also parentheses.
        state, *fields = stat.rpartition(")")[2].split()
        return None if state in "ZX" else cls(pid, int(fields[18]), _boot())

    @classmethod
    def parse(cls, text: str) -> "Identity":
        """The inverse of `str()`. Raises `ValueError`."""
        pid, start, boot = text.split(":")
        return cls(int(pid), int(start), boot)

    def __str__(self) -> str:
        return f"{self.pid}:{self.start}:{self.boot}"

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return Identity.of(self.pid) == self


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def spawn(argv: list[str], *, log: Path, environment: Mapping[str, str], member: Path) -> Identity:
    """Start `argv` (absolute program path first) in a session of its own, appending its output to `log`.

    Not `subprocess.Popen`: that object wants to be waited for, and these processes outlive us.
    """
    default = [signal.SIGPIPE, signal.SIGXFSZ]  # Python ignores both, and a child inherits that
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        pid = os.posix_spawn(
            argv[0],
            argv,
            {**environment, MEMBER: str(member)},
            setsid=True,
            setsigdef=default,
            setsigmask=[],
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
        )
    finally:
        os.close(output)
    return Identity.of(pid) or Identity(pid, 0, _boot())


def record(identity: Identity, file: Path) -> None:
    """Write a process down, to be found by `recorded`."""
    write_atomic(file, f"{identity}\n".encode())


def recorded(file: Path) -> Identity | None:
    """The process written down in `file`, if it still runs."""
    try:
        identity = Identity.parse(file.read_text().strip())
    except (FileNotFoundError, ValueError):
        return None
    return identity if identity.alive() else None


def send(identity: Identity, number: signal.Signals) -> bool:
    """Signal this very process; False if it is gone."""
    fd = _open(identity)
    if fd is None:
        return False
    try:
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def end(identities: Sequence[Identity], *, grace: float = 0.0) -> None:
    """End all these processes and wait until each is gone.

    SIGTERM first where `grace` seconds are given, SIGKILL to what is left after them.
    Raises `LeftoverError` for a process that outlives SIGKILL (it hangs in the kernel).
    """
    waiting = {fd: identity for identity in identities if (fd := _open(identity)) is not None}
    try:
        if grace:
            _signal_all(waiting, signal.SIGTERM)
            _wait(waiting, grace)
        _signal_all(waiting, signal.SIGKILL)
        _wait(waiting, _END_SECONDS)
        if waiting:
            pids = ", ".join(str(identity.pid) for identity in waiting.values())
            raise LeftoverError(
                f"processes {pids} outlive SIGKILL: they hang in the kernel, see /proc/PID/stack"
            )
    finally:
        for fd in waiting:
            os.close(fd)


def _signal_all(waiting: Mapping[int, Identity], number: signal.Signals) -> None:
    for fd in waiting:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, number)


def _wait(waiting: dict[int, Identity], seconds: float) -> None:
    """Remove from `waiting` what ends within `seconds`. A pidfd is readable once its process ended."""
    deadline = time.monotonic() + seconds
    poll = select.poll()
    for fd in waiting:
        poll.register(fd, select.POLLIN)
    while waiting and (left := deadline - time.monotonic()) > 0:
        for fd, _ in poll.poll(left * 1000):
            poll.unregister(fd)
            identity = waiting.pop(fd)
            os.close(fd)
            with suppress(ChildProcessError):  # started by another process: not ours to reap
                os.waitpid(identity.pid, os.WNOHANG)


def _open(identity: Identity) -> int | None:
    try:
        fd = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return None
    if identity.alive():
        return fd
    os.close(fd)
    return None


def members(folder: Path) -> list[Identity]:
    """Every living process that was started for the cluster in `folder`, recorded or not."""
    wanted = f"{MEMBER}={folder}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):  # ended meanwhile, or another user's
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                identity = Identity.of(int(entry.name))
                found += [identity] if identity else []
    return found
