"""Bounded directories: real images on real loop devices."""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gkm.store import bounded
from gkm.store.bounded import Bounds, UnboundedError, mount_bounded, unmount_all
from support.parts import need_program, need_root

pytestmark = pytest.mark.root

BOUNDS = Bounds(8 << 20, 1000)


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    need_root()
    need_program("mkfs.ext4", "e2fsprogs")
    bounded._fresh.cache_clear()
    yield
    bounded._fresh.cache_clear()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory in which images are made and mounted."""
    yield tmp_path
    unmount_all(tmp_path)


def mounted(place: Path, name: str, bounds: Bounds = BOUNDS) -> Path:
    directory = place / name
    directory.mkdir()
    mount_bounded(place / f"{name}.image", directory, bounds)
    return directory


def test_many_of_one_size_are_sound_and_each_its_own(place: Path) -> None:
    directories = [mounted(place, f"pod-{number}") for number in range(4)]
    for number, directory in enumerate(directories):
        (directory / "mine").write_text(str(number))
    assert [(directory / "mine").read_text() for directory in directories] == ["0", "1", "2", "3"]
    unmount_all(place)
    for image in place.glob("*.image"):
        subprocess.run(["e2fsck", "-fn", image], check=True, capture_output=True)


def test_mkfs_runs_once_for_each_size(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted(place, "first")
    monkeypatch.setenv("PATH", "/nonexistent")
    mounted(place, "second")
    with pytest.raises(UnboundedError):
        mounted(place, "other", Bounds(16 << 20, 1000))
    assert not (place / "other.image").exists()
    monkeypatch.undo()
    # A failure is not remembered.
    assert mounted(place, "later", Bounds(16 << 20, 1000)).is_mount()


def test_a_size_is_its_own_limit(place: Path) -> None:
    small, large = mounted(place, "small"), mounted(place, "large", Bounds(32 << 20, 1000))
    (large / "file").write_bytes(os.urandom(16 << 20))
    with pytest.raises(OSError, match="No space left") as caught:
        (small / "file").write_bytes(os.urandom(16 << 20))
    assert caught.value.errno == errno.ENOSPC


def test_an_image_takes_no_more_of_the_disk_than_what_is_in_it(place: Path) -> None:
    mounted(place, "pod", Bounds(1 << 30, 65_536))
    assert (place / "pod.image").stat().st_blocks * 512 < 1 << 20
