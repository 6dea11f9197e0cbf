"""Giving up what a process could do wrong with, before it meets the first foreign byte."""

import ctypes
import os
import resource
import signal
import struct
from dataclasses import dataclass
from pathlib import Path

from gkm.agent import seccomp
from gkm.agent.errors import ConfinementError
from gkm.store.linux.syscalls import checked, die_with_parent, drop_bounding_set, libc

_PR_SET_DUMPABLE = 4
_PR_SET_KEEPCAPS = 8
_PR_SET_NO_NEW_PRIVS = 38
_MOST_TASKS = 256
_CAPABILITY_VERSION_3 = 0x2008_0522
_CAP_DAC_READ_SEARCH = 1 << 2


@dataclass(frozen=True, slots=True)
class Identity:
    """The ids of children that parse foreign bytes: nothing else on the node runs as these."""

    uid: int
    gid: int


def confine(*, parent: int, identity: Identity | None, reading: bool = False, network: bool = True) -> bool:
    """Confine this process for good; returns whether a system call filter is part of it.

    It takes on `identity`, where given, and so loses all capabilities. No privilege comes back through a
    program's file mode (no_new_privs), other processes of the same user can neither trace it nor read its
    memory and descriptors (not dumpable), it cannot start processes or programs, and it dies with `parent`.
    With `reading` it keeps CAP_DAC_READ_SEARCH, where it has it, and loses the network instead; without `network`
    it loses that alone. Call it before there are threads; import before what is needed after.

    Raises:
        ConfinementError: it holds capabilities still, so it was not started as it should be.
        OSError: the kernel refused.
    """
    if identity is not None:
        drop_bounding_set()
        keep_capabilities(keep=reading)
        os.setgroups([])
        os.setresgid(identity.gid, identity.gid, identity.gid)
        os.setresuid(identity.uid, identity.uid, identity.uid)
        set_capabilities(_CAP_DAC_READ_SEARCH if reading else 0)
    held = effective_capabilities()
    if held & ~(_CAP_DAC_READ_SEARCH if reading else 0):
        raise ConfinementError(
            f"gkm-extract must not hold capabilities when it stages for an agent, but has {held:#x}:"
            " start it as an ordinary user, or name the ids to take on"
        )
    checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(PR_SET_NO_NEW_PRIVS)")
    checked(libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl(PR_SET_DUMPABLE)")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _lower(resource.RLIMIT_NPROC, _MOST_TASKS)
    die_with_parent(signal.SIGKILL)  # forgotten at every change of ids, so only now
    # It may have died before we asked to be told.
    if os.getppid() != parent:
        raise ConfinementError("the agent that started gkm-extract is gone")
    return seccomp.install(network=network and not reading)


def keep_capabilities(*, keep: bool) -> None:
    """Whether a change of the user ID leaves the permitted capabilities (prctl(2), PR_SET_KEEPCAPS)."""
    checked(libc.prctl(_PR_SET_KEEPCAPS, int(keep), 0, 0, 0), "prctl(PR_SET_KEEPCAPS)")


def set_capabilities(bits: int) -> None:
    """Have just these capabilities, and hand none on (capset(2), version 3 of its structures)."""
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0))
    low, high = bits & 0xFFFF_FFFF, bits >> 32
    data = ctypes.create_string_buffer(struct.pack("=6I", low, low, 0, high, high, 0))
    checked(libc.capset(header, data), "capset")


def effective_capabilities() -> int:
    """The capabilities that this process can use now, as the kernel's bit set (proc(5), "CapEff")."""
    for text in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        name, _, value = text.partition(":")
        if name == "CapEff":
            return int(value, 16)
    raise ConfinementError("/proc/self/status has no CapEff: /proc is not mounted as it should be")


def _lower(limit: int, most: int) -> None:
    _, hard = resource.getrlimit(limit)
    allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(limit, (allowed, allowed))
