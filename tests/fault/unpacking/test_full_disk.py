"""A filesystem that takes no more: the error says so, and what was written is gone."""

import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.archives import file, joined, layer, unpacked


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real filesystem of 1 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=100", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.mark.root
@pytest.mark.parametrize(
    "archive",
    [
        joined([file("small"), file("d/large", bytes(2 << 20))]),
        joined(file(f"d{number}/f", b"") for number in range(100)),
    ],
    ids=["bytes", "inodes"],
)
def test_a_full_disk(small_disk: Path, archive: bytes) -> None:
    with pytest.raises(OSError, match="No space left") as caught:
        unpacked(small_disk / "tree", layer(archive))
    assert caught.value.errno == errno.ENOSPC
    assert list(small_disk.iterdir()) == []
    unpacked(small_disk / "tree", layer(joined([file("fits")])))
