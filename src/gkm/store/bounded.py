"""A directory whose content has a limit of its own in bytes and files: a sparse ext4 image, loop-mounted.

Without a journal, for nothing in it outlives the machine's next boot. The mount takes 7 to 11 ms (Linux 6.18);
dropping it is one unlink, however many files were made in it. mkfs takes as long, and a tenth of a second on a busy
disk, which it makes wait four times: so it runs once for each size, in memory, and an image gets what it wrote there,
80 KB in a fifth of a millisecond. That all images of one size carry one UUID matters to nobody: ext4 mounts them side
by side, and an overlay has one of them.
"""

import errno
import functools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gkm.store.errors import MountError, disk_error
from gkm.store.linux import mountinfo, syscalls
from gkm.store.linux.loop import loop_device
from gkm.store.overlay import unmount

_BLOCK = 4096
_INODE = 256
_OVERHEAD = 1 << 20
"""Bytes that ext4 keeps for itself in the smallest image: superblock, bitmaps, root and lost+found."""


class Bounds(NamedTuple):
    """What a workload may add."""

    bytes: int
    files: int

    def and_also(self, *, bytes: int, files: int) -> "Bounds":  # noqa: A002  the field's name
        """Room for this many more, each file rounded up to a block."""
        return Bounds(self.bytes + bytes + files * _BLOCK, self.files + files)


class UnboundedError(MountError):
    """No bounded directory can be had here (no loop devices, no mkfs.ext4); a plain one has to do."""


def mount_bounded(image: Path, directory: Path, bounds: Bounds) -> None:
    """Make the file `image` and mount it at the empty `directory`, ``nosuid,nodev``.

    Raises:
        UnboundedError: it cannot be done here. `image` is gone again.
        StoreFullError, StoreError: the disk failed.
    """
    try:
        _make(image, bounds)
        with loop_device(image) as device:
            flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOATIME
            # Without barriers a sync of it reaches the image and stops there: it need not outlive the machine.
            syscalls.mount(device, directory, "ext4", flags, "errors=remount-ro,nobarrier")
    except OSError as error:
        image.unlink(missing_ok=True)
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS}:
            raise disk_error(error, "making a bounded directory", image) from error
        raise UnboundedError(f"no bounded directory can be had: {error}") from error
    except UnboundedError:
        image.unlink(missing_ok=True)
        raise


def unmount_all(directory: Path) -> None:
    """Undo every mount at or below `directory`. Who still reads there keeps what he has open.

    Raises `MountError`.
    """
    for entry in reversed(mountinfo.mounts_below(directory)):
        unmount(entry.target, lazily=True)


class _Extent(NamedTuple):
    """What stands in a fresh image at `offset`; between extents are holes."""

    offset: int
    data: bytes


def _make(image: Path, bounds: Bounds) -> None:
    fresh = _fresh(bounds)
    fd = os.open(image, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.truncate(_size(bounds))
        for extent in fresh:
            file.seek(extent.offset)
            file.write(extent.data)


def _size(bounds: Bounds) -> int:
    size = bounds.bytes + bounds.files * _INODE + _OVERHEAD
    return size + -size % _BLOCK


@functools.lru_cache(maxsize=16)
def _fresh(bounds: Bounds) -> tuple[_Extent, ...]:
    """What mkfs.ext4 writes for `bounds`. Raises `UnboundedError`, `OSError`."""
    fd = os.memfd_create("gkm-bounded")
    try:
        os.ftruncate(fd, _size(bounds))
        command = ["mkfs.ext4", "-q", "-F", "-O", "^has_journal,^resize_inode", "-m", "0", "-b", str(_BLOCK)]
        command += ["-N", str(bounds.files + 16), "-I", str(_INODE)]
        command += ["-E", "nodiscard,lazy_itable_init=1", f"/proc/self/fd/{fd}"]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, pass_fds=(fd,)
        )
        if done.returncode != 0:
            raise UnboundedError(f"mkfs.ext4 failed (exit status {done.returncode}): {done.stderr.strip()}")
        return tuple(_extents(fd))
    finally:
        os.close(fd)


def _extents(fd: int) -> Iterator[_Extent]:
    """Where the file `fd` has data (lseek(2), SEEK_DATA)."""
    end = 0
    while True:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # there is no more
                return
            raise
        end = os.lseek(fd, start, os.SEEK_HOLE)
        yield _Extent(start, os.pread(fd, end - start, start))
