"""Calls into the C library: mounts, namespaces, capabilities, syncing one filesystem.

Every function raises `OSError` with the kernel's errno and the call's name. Flag values are those of the
kernel's uapi headers (linux/mount.h, linux/sched.h, linux/prctl.h), the same on every architecture.
"""

import ctypes
import os

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_NOATIME = 0x400
MS_BIND = 0x1000
MS_REC = 0x4000
MS_SLAVE = 0x80000
MNT_DETACH = 0x2
CLONE_NEWNS = 0x0002_0000
CLONE_NEWUSER = 0x1000_0000

_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_READ = 23
_PR_CAPBSET_DROP = 24

libc = ctypes.CDLL(None, use_errno=True)
libc.mount.argtypes = (
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_ulong,
    ctypes.c_char_p,
)
libc.umount2.argtypes = (ctypes.c_char_p, ctypes.c_int)
libc.prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)


def checked(result: int, call: str) -> int:
    """`result` of a C call, or the `OSError` that errno says when it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result


def mount(source: str, target: str | os.PathLike[str], fstype: str | None, flags: int, options: str) -> None:
    """mount(2). `options` is the filesystem's own text; the kernel takes at most a page of it."""
    kind = None if fstype is None else fstype.encode()
    result = libc.mount(os.fsencode(source), os.fsencode(target), kind, flags, os.fsencode(options))
    checked(result, "mount")


def umount(target: str | os.PathLike[str], flags: int = 0) -> None:
    """umount2(2); `MNT_DETACH` takes the mount out of sight at once, and ends it with its last user."""
    checked(libc.umount2(os.fsencode(target), flags), "umount2")


def unshare(flags: int) -> None:
    """unshare(2): the calling thread leaves the namespaces named by `flags`; call it single-threaded."""
    checked(libc.unshare(flags), "unshare")


def syncfs(fd: int) -> None:
    """syncfs(2): everything written to the filesystem that holds `fd` reaches the disk, or an error says not.

    One call for thousands of small files; fsync of each would wait for the disk that often. Since Linux 5.8
    it reports write-back errors.
    """
    checked(libc.syncfs(fd), "syncfs")


def sync_filesystem(path: str | os.PathLike[str]) -> None:
    """`syncfs` of the filesystem that holds the directory `path`."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        syncfs(fd)
    finally:
        os.close(fd)


def die_with_parent(signal_number: int) -> None:
    """prctl(PR_SET_PDEATHSIG): this process gets `signal_number` when the thread that forked it ends."""
    checked(libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def drop_bounding_set() -> None:
    """Empty the capability bounding set, so that no execve(2) gives capabilities again (capabilities(7))."""
    capability = 0
    # The kernel answers EINVAL for the first number it has no capability for.
    while libc.prctl(_PR_CAPBSET_READ, capability, 0, 0, 0) >= 0:
        checked(libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0), "prctl(PR_CAPBSET_DROP)")
        capability += 1
