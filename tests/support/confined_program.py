"""Confines itself as gkm-extract does and tells what is left: run by tests as ``PROGRAM PARENT UID GID READING``."""

import concurrent.futures.thread
import ctypes
import json
import os
import resource
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from gkm.agent.confinement import Identity, confine
from gkm.store.linux.syscalls import libc, mount, unshare


def tried(what: Callable[[], object]) -> str:
    """``ok``, or the name of the error."""
    try:
        what()
    except OSError as error:
        return os.strerror(error.errno or 0)
    except RuntimeError as error:
        return str(error)
    return "ok"


def fork() -> None:
    """Start a process that ends at once."""
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def thread() -> None:
    """Start a thread."""
    started = threading.Thread(target=lambda: None)
    started.start()
    started.join()


def ptrace() -> None:
    """Ask to be traced."""
    if libc.ptrace(0, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def main() -> None:
    parent, uid, gid, reading = (int(text) for text in sys.argv[1:5])
    secret = Path(sys.argv[5])
    assert concurrent.futures.thread
    filtered = confine(parent=parent, identity=Identity(uid, gid) if uid else None, reading=bool(reading))
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    told = {
        "filtered": filtered,
        "ids": [os.getuid(), os.geteuid(), os.getgid(), os.getegid(), os.getgroups()],
        "no_new_privs": status["NoNewPrivs"].strip(),
        "effective": int(status["CapEff"], 16),
        "permitted": int(status["CapPrm"], 16),
        "inheritable": int(status["CapInh"], 16),
        "bounding": int(status["CapBnd"], 16),
        "core": resource.getrlimit(resource.RLIMIT_CORE),
        "own memory": tried(lambda: Path("/proc/self/mem").open("rb").close()),
        "root": tried(lambda: os.setresuid(0, 0, 0)),
        "read secret": tried(secret.read_bytes),
        "write secret": tried(lambda: secret.write_bytes(b"x")),
        "fork": tried(fork),
        "execute": tried(lambda: os.execv("/bin/true", ["true"])),
        "thread": tried(thread),
        "mount": tried(lambda: mount("none", "/mnt", "tmpfs", 0, "")),
        "unshare": tried(lambda: unshare(0x1000_0000)),
        "trace": tried(ptrace),
        "socket": tried(lambda: socket.socket().close()),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
