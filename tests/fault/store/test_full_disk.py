"""A store whose disk is really full: it opens, lets go, and gives back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gkm.store.claims import claim
from gkm.store.errors import StoreFullError
from gkm.store.prepare import prepare
from gkm.store.store import Store
from gkm.store.trash import throw_away
from support.parts import need_program, need_root
from support.small_disk import fill, make_room, small_disk, until_full
from support.views import seal_files, triton_files

pytestmark = pytest.mark.root


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of the store's own."""
    need_root()
    need_program("mkfs.ext4", "e2fsprogs")
    directory = tmp_path / "disk"
    directory.mkdir()
    with small_disk(tmp_path / "image", directory) as mounted:
        yield mounted


def leftovers(store: Store) -> list[Path]:
    parts = (store.layout.staging, store.layout.mounts, store.layout.trash)
    return [path for part in parts for path in part.iterdir() if path.name != ".lock"]


def test_a_disk_of_its_own_becomes_a_store(disk: Path) -> None:
    assert (disk / "lost+found").is_dir()
    assert Store.open(disk).trees() == []
    assert Store.open(disk).trees() == []


def test_leftovers_are_cleared_and_trees_collected(disk: Path) -> None:
    store = Store.open(disk)
    trees = [seal_files(store, triton_files(name)) for name in ("add", "mul")]
    view = prepare(store, trees[0])
    claim(store.layout, store.layout.staging).close()
    (store.layout.staging / "0123456789abcdef").mkdir()  # whose owner died before it was locked
    fill(disk)
    with pytest.raises(StoreFullError):
        prepare(store, trees[1])
    view.claim.close()  # its owner is dead
    again = Store.open(disk)
    assert leftovers(again) == [store.layout.staging / "0123456789abcdef"]
    assert set(again.collect().removed) == {tree.digest for tree in trees}
    make_room(disk)
    assert leftovers(Store.open(disk)) == []


def test_what_the_trash_has_no_room_for_is_deleted_in_place(disk: Path) -> None:
    store = Store.open(disk)
    tree = seal_files(store, triton_files("add"))
    fill(disk)
    # Names as long as those of graves, until one more would take another block.
    until_full(lambda number: (store.layout.trash / f"{number:016}").hardlink_to(store.root / "version"))
    before = len(list(store.layout.trash.iterdir()))
    throw_away(store.layout, tree.directory)
    assert not tree.directory.exists()
    assert len(list(store.layout.trash.iterdir())) == before > 100
    assert Store.open(disk).trees() == []
