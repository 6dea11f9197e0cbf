"""Mount points are told as /proc/self/mountinfo tells them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gkm.store.linux import mountinfo, mountpoint
from gkm.store.linux.mountpoint import is_mount_point
from gkm.store.linux.syscalls import MNT_DETACH, MS_BIND, mount, umount

pytestmark = pytest.mark.root


@pytest.fixture
def places(tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Paths with something mounted, and without."""
    places = {name: tmp_path / name for name in ("plain", "tmpfs", "bound", "twice", "gone", "link", "file")}
    for name in ("plain", "tmpfs", "bound", "twice"):
        places[name].mkdir()
    places["file"].touch()
    places["below a file"] = places["file"] / "name"
    places["link"].symlink_to(places["tmpfs"])
    try:
        for name in ("tmpfs", "twice", "twice"):
            mount("none", places[name], "tmpfs", 0, "size=64k")
        # Within its filesystem: neither device nor inode number tell.
        mount(str(places["plain"]), places["bound"], None, MS_BIND, "")
        places["in a mount"] = places["tmpfs"] / "directory"
        places["in a mount"].mkdir()
        yield places
    finally:
        for entry in reversed(mountinfo.mounts()):
            if Path(entry.target).is_relative_to(tmp_path):
                umount(entry.target, MNT_DETACH)


@pytest.mark.parametrize("known", [True, False], ids=["statx", "a kernel before 5.8"])
def test_a_mount_point_is_what_the_kernel_lists_as_one(
    places: dict[str, Path], monkeypatch: pytest.MonkeyPatch, *, known: bool
) -> None:
    listed = {entry.target for entry in mountinfo.mounts()}
    asked: list[None] = []
    mounts = mountinfo.mounts
    monkeypatch.setattr(mountinfo, "mounts", lambda: asked.append(None) or mounts())
    if not known:
        monkeypatch.setattr(mountpoint, "_ATTR_MOUNT_ROOT", 0)
    told = {name for name, path in places.items() if is_mount_point(path)}
    assert told == {name for name, path in places.items() if str(path) in listed}
    assert told == {"tmpfs", "bound", "twice"}
    assert bool(asked) is not known
    umount(places["twice"])
    assert is_mount_point(places["twice"])
