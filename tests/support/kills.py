"""A child that kills itself at the n-th step of its work that touches disk, processes or mounts."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from gkm.store.linux import syscalls

_AUDITED = frozenset(
    {
        "fcntl.ioctl",
        "open",
        "os.chmod",
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


def run_killed_at(step: int, work: Callable[[], None]) -> bool:
    """Run `work` in a child that dies at its step number `step` (0: never); whether it was done before that.

    Mounting and unmounting are steps before and after, for a kill may fall on either side.
    """
    child = os.fork()
    if child == 0:
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
