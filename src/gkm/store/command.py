"""Starting a command as it would have started without us. For a process with one thread."""

import contextlib
import errno
import os
import signal
from collections.abc import Collection, Mapping, Sequence

from gkm.store.linux import syscalls

_SHELL = "/bin/sh"


def start_command(
    argv: Sequence[str],
    env: Mapping[str, str],
    mask: Collection[int],
    *,
    drop_capabilities: bool,
) -> int:
    """Fork and execute `argv`; returns its pid once the program has taken over.

    It has our standard streams, process group, working directory and open inheritable descriptors, the signal
    mask `mask`, and is killed when this process dies: nobody would be left to report it. A text file without
    ``#!`` is given to the shell, as execvp(3) does.

    Raises:
        OSError: it cannot be executed; the errno tells "not found" from the rest.
    """
    parent = os.getpid()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):  # nothing may return into the parent's code
            number = _become(argv, env, mask, parent, drop_capabilities=drop_capabilities)
            os.write(writing, str(number).encode())
        os._exit(127)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        failed = pipe.read()  # ends when the program has taken over, for the descriptor closes on exec
    if failed:
        os.waitpid(pid, 0)
        number = int(failed)
        raise OSError(number, os.strerror(number), argv[0])
    return pid


def _become(
    argv: Sequence[str],
    env: Mapping[str, str],
    mask: Collection[int],
    parent: int,
    *,
    drop_capabilities: bool,
) -> int:
    """Execute, or return the errno that says why not."""
    try:
        syscalls.die_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(127)  # it died before the line above: nothing would tell us any more
        if drop_capabilities:
            # In the user namespace this process could mount; the command shall not.
            syscalls.drop_bounding_set()
        # Python ignores two signals and catches a third for itself: the command starts with the defaults, which
        # also end it at once where such a signal waits already.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        try:
            os.execvpe(argv[0], list(argv), dict(env))  # noqa: S606  running what the caller says is the purpose
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            program = argv[0] if "/" in argv[0] else _find(argv[0], env)
            os.execve(_SHELL, ["sh", program, *argv[1:]], dict(env))  # noqa: S606  as above
    except OSError as error:
        return error.errno or errno.EIO


def _find(name: str, env: Mapping[str, str]) -> str:
    for directory in os.get_exec_path(dict(env)):
        path = f"{directory or '.'}/{name}"
        if os.access(path, os.X_OK) and not os.path.isdir(path):  # noqa: PTH112  text in, text out
            return path
    return name
