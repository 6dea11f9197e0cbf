"""A child that kills itself at the n-th step of its work that touches disk, processes or mounts."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

from gkm.store.linux import syscalls

_AUDITED = frozenset(
    {
        "fcntl.ioctl",
        "open",
        "os.chmod",
        "os.chown",
        "os.link",
        "os.mkdir",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.scandir",
        "os.truncate",
        "os.utime",
        "shutil.rmtree",
        "subprocess.Popen",
    }
)


def killed_at_each_step(work: Callable[[], None], *, at_least: int) -> Iterator[int]:
    """Run `work` killed at its first step, then at its second, until it comes to its end; the steps' numbers.

    After each the caller looks at what is left, and puts it in order. There are `at_least` so many steps.
    """
    step = 1
    while not run_killed_at(step, work):
        yield step
        step += 1
    assert step > at_least, "the steps were not counted"


def run_killed_at(step: int, work: Callable[[], None]) -> bool:
    """Run `work` in a child that dies at its step number `step` (0: never); whether it was done before that.

    Mounting and unmounting are steps before and after, for a kill may fall on either side.
    """
    child = os.fork()
    if child == 0:
        # gRPC objects of earlier tests have no threads here, and crash when they are collected (seen).
        gc.freeze()
        try:
            _count_down(step)
            work()
        except BaseException as error:  # noqa: BLE001  told by the exit status
            os.write(2, f"{error!r}\n".encode())
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL), "the child's own error stands above"
    return code == 0


def _count_down(step: int) -> None:
    left = step

    def passed() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def audited(event: str, _: object) -> None:
        if event in _AUDITED:
            passed()

    def counted(call: Callable[..., None]) -> Callable[..., None]:
        def count(*arguments: Any) -> None:
            passed()
            call(*arguments)
            passed()

        return count

    sys.addaudithook(audited)
    for name in ("mount", "umount"):
        setattr(syscalls, name, counted(getattr(syscalls, name)))
