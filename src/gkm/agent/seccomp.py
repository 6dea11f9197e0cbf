"""A system call filter for processes that parse foreign bytes: no new programs, processes or mounts.

It denies rather than allows: an interpreter, TLS and DNS use many calls that change between releases, and what
must not happen is a short list. Threads may be made, processes may not: when the process dies, nothing that
it started lives on. Numbers are those of the kernel's tables (arch/x86/entry/syscalls/syscall_64.tbl,
include/uapi/asm-generic/unistd.h).
"""

import ctypes
import errno
import platform
import struct
from dataclasses import dataclass

from gkm.store.linux.syscalls import checked, libc

_PR_SET_SECCOMP = 22
_MODE_FILTER = 2

# struct sock_filter's codes (linux/bpf_common.h).
_LOAD_WORD = 0x20
_JUMP_EQUAL = 0x15
_JUMP_GREATER_OR_EQUAL = 0x35
_JUMP_ANY_BIT = 0x45
_RETURN = 0x06

_ALLOW = 0x7FFF_0000
_KILL_PROCESS = 0x8000_0000
_ERRNO = 0x0005_0000

# Offsets in struct seccomp_data (linux/seccomp.h); both architectures are little-endian.
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_CLONE_THREAD = 0x0001_0000


@dataclass(frozen=True, slots=True)
class Architecture:
    """One machine's numbers."""

    audit: int
    """AUDIT_ARCH_*, which the kernel names the calling convention by."""
    clone: int
    denied: tuple[int, ...]
    sockets: tuple[int, ...]
    """socket and socketpair."""
    foreign_from: int | None = None
    """Numbers from here on are another calling convention of the same machine (x32)."""


_CLONE3 = 435
# The same on every architecture since Linux 5.x: open_tree, move_mount, fsopen, fsconfig, fsmount, fspick,
# io_uring_setup, io_uring_enter, io_uring_register, pidfd_getfd, mount_setattr.
_COMMON = (428, 429, 430, 431, 432, 433, 425, 426, 427, 438, 442)

# execve, execveat, ptrace, process_vm_readv, process_vm_writev, mount, umount2, pivot_root, chroot, unshare,
# setns, bpf, perf_event_open, userfaultfd, add_key, request_key, keyctl, init_module, finit_module,
# delete_module, kexec_load, kexec_file_load, open_by_handle_at; on x86_64 fork and vfork first.
_X86_64 = Architecture(
    audit=0xC000_003E,
    clone=56,
    denied=(
        *(57, 58, 59, 322, 101, 310, 311, 165, 166, 155, 161, 272, 308, 321, 298, 323, 248, 249, 250),
        *(175, 313, 176, 246, 320, 304, *_COMMON),
    ),
    sockets=(41, 53),
    foreign_from=0x4000_0000,
)
_AARCH64 = Architecture(
    audit=0xC000_00B7,
    clone=220,
    denied=(
        *(221, 281, 117, 270, 271, 40, 39, 41, 51, 97, 268, 280, 241, 282, 217, 218, 219),
        *(105, 273, 106, 104, 294, 265, *_COMMON),
    ),
    sockets=(198, 199),
)
_KNOWN = {"x86_64": _X86_64, "aarch64": _AARCH64}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def program(architecture: Architecture, *, network: bool) -> bytes:
    """The filter as the kernel reads it: an array of struct sock_filter. Without `network`, no sockets either."""
    denied, unknown = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    steps = [
        (_LOAD_WORD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, architecture.audit),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD_WORD, 0, 0, _NUMBER),
    ]
    if architecture.foreign_from is not None:
        steps += [(_JUMP_GREATER_OR_EQUAL, 0, 1, architecture.foreign_from), (_RETURN, 0, 0, denied)]
    for number in (*architecture.denied, *(() if network else architecture.sockets)):
        steps += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, denied)]
    # Its flags lie in memory, out of a filter's sight. Told that it does not exist, C libraries take clone.
    steps += [(_JUMP_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, unknown)]
    steps += [
        (_JUMP_EQUAL, 0, 3, architecture.clone),
        (_LOAD_WORD, 0, 0, _FIRST_ARGUMENT),
        (_JUMP_ANY_BIT, 1, 0, _CLONE_THREAD),
        (_RETURN, 0, 0, denied),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def install(*, network: bool) -> bool:
    """Filter the calls of this process from now on; False where the machine or the kernel has no filters.

    Call it after PR_SET_NO_NEW_PRIVS and before there are threads. Raises `OSError` when the kernel refuses.
    """
    architecture = _KNOWN.get(platform.machine())
    if architecture is None:
        return False
    code = program(architecture, network=network)
    buffer = ctypes.create_string_buffer(code, len(code))
    wanted = _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    result = libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(wanted), 0, 0)
    if result < 0 and ctypes.get_errno() == errno.EINVAL:
        return False  # a kernel without CONFIG_SECCOMP_FILTER (prctl(2))
    checked(result, "prctl(PR_SET_SECCOMP)")
    return True
