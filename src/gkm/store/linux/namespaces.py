"""A mount namespace of one's own, for root and for an ordinary user (mount_namespaces(7), user_namespaces(7)).

What is mounted inside is seen by this process and its children alone, and ends with the last of them, also
when they are killed. Call these in a process with one thread.
"""

import os
from pathlib import Path

from gkm.store.linux import syscalls


def enter_mount_namespace() -> None:
    """Leave the caller's mount namespace (needs CAP_SYS_ADMIN). Raises `OSError`."""
    syscalls.unshare(syscalls.CLONE_NEWNS)
    _receive_only()


def enter_user_namespace() -> None:
    """Enter a user and a mount namespace in which this process may mount. Raises `OSError`.

    The effective uid and gid are mapped to themselves and nothing else is: files keep their owners' numbers.
    Supplementary groups keep their rights (the kernel compares its own ids) though they show as 65534, so a
    member of ``render`` or ``video`` still opens the GPU.
    """
    uid, gid = os.geteuid(), os.getegid()
    syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS)
    # user_namespaces(7): setgroups must be denied before an unprivileged process may write gid_map.
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        Path("/proc/self", name).write_text(text, encoding="ascii")
    _receive_only()


def _receive_only() -> None:
    """Mounts made here stay here; mounts made outside later (automounts) still appear."""
    syscalls.mount("none", "/", None, syscalls.MS_REC | syscalls.MS_SLAVE, "")
