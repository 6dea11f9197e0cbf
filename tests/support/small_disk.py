"""A small filesystem that is really full: an ext4 image without reserve, filled to its last inode and byte."""

import errno
import itertools
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FILLING = "filling"


def make_image(image: Path, size: int, inodes: int) -> None:
    """An empty ext4 filesystem in the new file `image`: root may use all of its `size` bytes."""
    with image.open("xb") as file:
        file.truncate(size)
    words = ("-q", "-F", "-m", "0", "-b", "4096", "-N", str(inodes))
    subprocess.run(["mkfs.ext4", *words, image], check=True)


@contextmanager
def small_disk(image: Path, directory: Path, size: int = 24 << 20, inodes: int = 256) -> Iterator[Path]:
    """A filesystem in `image`, mounted at `directory` for the block."""
    make_image(image, size, inodes)
    subprocess.run(["mount", "-o", "loop", image, directory], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)
        image.unlink()


def fill(disk: Path) -> None:
    """Take every inode of `disk` that is left, then every byte."""
    folder = disk / _FILLING
    folder.mkdir()
    _fill_bytes(folder, but=1 << 20)  # a directory of so many files takes blocks too
    until_full(lambda number: (folder / str(number)).touch())
    _fill_bytes(folder)
    # Some blocks ext4 gives to nobody (reserved_clusters): they are free, and not to be had.
    left = os.statvfs(disk)
    assert (left.f_bavail, left.f_ffree) == (0, 0), left


def fill_bytes(disk: Path, but: int = 0) -> None:
    """Leave `but` bytes of `disk`, more or less, and no byte at all by default; of inodes all but two."""
    (disk / _FILLING).mkdir()
    _fill_bytes(disk / _FILLING, but)


def make_room(disk: Path) -> None:
    """Take back what `fill` did."""
    shutil.rmtree(disk / _FILLING)


def _fill_bytes(folder: Path, but: int = 0) -> None:
    with (folder / "bytes").open("ab", buffering=0) as file:
        # Not delayed: what is refused later than asked for was never taken.
        left = os.statvfs(folder)
        if (wanted := left.f_bavail * left.f_frsize - but) > 0:
            with suppress(OSError):
                os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), wanted)
        for size in () if but else (1 << 16, 4096, 1):
            until_full(lambda _, size=size: file.write(bytes(size)))
        os.fsync(file.fileno())


def until_full(step: Callable[[int], object]) -> None:
    """Call `step` with 0, 1, 2 and so on until a disk is full."""
    for number in itertools.count():
        try:
            step(number)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                return
            raise
