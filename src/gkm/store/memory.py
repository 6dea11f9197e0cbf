"""A view's directory in memory, for a node whose disk has no room for one: a small tmpfs.

It holds all of the view, its journal too, and so asks nothing of the store's disk. Like every mount of a view it
outlives the process that made it and ends with the boot, which is as long as a view lives. Its bytes count as memory
of the workload that writes them, so they are few (docs/adr/0043).
"""

import contextlib
import os
import secrets
from pathlib import Path

from gkm.store.bounded import Bounds
from gkm.store.claims import Claim, own
from gkm.store.errors import MountError
from gkm.store.linux import syscalls
from gkm.store.overlay import unmount

_MOST = Bounds(16 << 20, 4096)
"""Enough for locks and a few kernels, and little beside the memory of a workload that has a GPU."""
_RECORDS = Bounds(64 << 10, 16)
"""What a view writes down of itself, and the directories that are there before its workload comes."""


def memory_bounds(bounds: Bounds) -> Bounds:
    """What a workload that may add `bounds` may add in memory."""
    return Bounds(min(bounds.bytes, _MOST.bytes), min(bounds.files, _MOST.files))


def is_roomier(bounds: Bounds, place: Path) -> bool:
    """Whether memory has more for a workload that may add `bounds` than is left on the filesystem of `place`.

    An image there is sparse: it takes bytes for which its disk has no room, and fails later (EIO). Raises `OSError`.
    """
    disk = os.statvfs(place)
    return disk.f_bavail * disk.f_frsize < memory_bounds(bounds).bytes


def claim_in_memory(place: Path, bounds: Bounds) -> Claim:
    """Make a fresh directory in `place` that takes `bounds`, and own it.

    Without a journal it belongs to nobody (`gkm.store.host.strays`). Raises `OSError`; then nothing is left behind.
    """
    path = place / secrets.token_hex(8)
    path.mkdir(mode=0o700)
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOATIME
    room = f"size={bounds.bytes + _RECORDS.bytes},nr_inodes={bounds.files + _RECORDS.files}"
    try:
        # The source is for people and for telling this one from others: no device stands behind it.
        syscalls.mount(f"gkm-{path.name}", path, "tmpfs", flags, f"{room},mode=700")
        return own(path)
    except BaseException:
        with contextlib.suppress(OSError, MountError):
            unmount(str(path), lazily=True)
            path.rmdir()
        raise
