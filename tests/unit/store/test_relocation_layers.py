"""One layer for each tree and path: made once, found again, bounded in number, gone with its tree."""

import json
import os
from pathlib import Path

import pytest

from gkm.caches.relocation import InvalidMountRootError
from gkm.store import relocated, relocation
from gkm.store.bounded import Bounds
from gkm.store.errors import LayerTooLargeError, TreeDamagedError, TreeMissingError
from gkm.store.host import Wish, drop, host, hosted_views
from gkm.store.layers import Layer, all_layers, bytes_of_layers
from gkm.store.mode import Mode
from gkm.store.overlay import unmount
from gkm.store.prepare import discard, prepare
from gkm.store.relocation import MOST_IDLE
from gkm.store.sealed import SealedTree
from gkm.store.store import Store
from support.views import OLD_ROOT, everything, seal_files, triton_files

ENTRY = "ADD" + "A" * 49
GROUP = f"{ENTRY}/__grp__add.json"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


@pytest.fixture
def tree(store: Store) -> SealedTree:
    return seal_files(store, triton_files("add"))


def made(store: Store, tree: SealedTree, root: str) -> Layer:
    layer = store.relocated(tree, root)
    assert layer is not None
    return layer


def set_used(layer: Layer, seconds: float) -> None:
    os.utime(layer.directory, (seconds, seconds))


def roots(tree: SealedTree) -> set[str]:
    return {
        json.loads((use.directory / "layer.json").read_bytes())["root"] for use in all_layers(tree.directory)
    }


def test_a_layer_holds_the_files_that_differ_at_its_path_and_the_tree_stays_as_it_is(
    store: Store, tree: SealedTree
) -> None:
    layer = made(store, tree, "/cache")
    (path,) = layer.lower_directories()
    files = everything(path)
    assert files.keys() == {GROUP}
    children = json.loads(files[GROUP])["child_paths"]
    assert children == {name: f"/cache/{ENTRY}/{name}" for name in ("add.cubin", "add.json")}
    assert (layer.record.files, layer.bytes) == (1, len(files[GROUP]))
    assert (path / GROUP).stat().st_mtime_ns == (tree.path / GROUP).stat().st_mtime_ns
    assert everything(tree.path) == triton_files("add")
    assert store.verify(tree.digest) == ()


def test_it_is_made_once_for_a_path_and_found_again_from_the_directory_alone(
    store: Store, tree: SealedTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, other = made(store, tree, "/cache"), made(store, tree, "/elsewhere")
    assert first.directory != other.directory

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("made again")

    monkeypatch.setattr(relocation, "build_layer", fail)
    again = Store.open(store.root)
    found = again.tree(tree.digest)
    assert found is not None
    assert again.relocated(found, "/cache") == first
    assert again.relocated(found, "/elsewhere") == other
    assert bytes_of_layers(tree.directory) == first.bytes + other.bytes


def test_a_tree_without_paths_needs_none_and_is_not_parsed_to_know_that(store: Store) -> None:
    tree = seal_files(store, {"plain": b"x"})
    (tree.directory / "inventory.json").write_text("{")
    assert store.relocated(tree, "/cache") is None
    assert all_layers(tree.directory) == []


def test_a_tree_sealed_before_that_was_written_down_is_looked_at(store: Store, tree: SealedTree) -> None:
    record = json.loads((tree.directory / "record.json").read_bytes())
    del record["relocatable"]
    (tree.directory / "record.json").write_text(json.dumps(record))
    old = store.tree(tree.digest)
    assert old is not None
    assert made(store, old, "/cache").record.files == 1


def test_where_the_tree_fits_as_it_is_the_layer_is_empty_and_mounts_nothing(
    store: Store, tree: SealedTree
) -> None:
    layer = made(store, tree, OLD_ROOT)
    assert layer.record.files == 0
    assert layer.lower_directories() == ()
    assert store.relocated(tree, OLD_ROOT) == layer


def test_a_path_longer_than_a_file_name_is_a_path_like_others(store: Store, tree: SealedTree) -> None:
    long = "/" + "/".join("d" * 200 for _ in range(10))
    assert made(store, tree, long).root == long


def test_a_path_that_is_none_is_refused_and_leaves_nothing(store: Store, tree: SealedTree) -> None:
    with pytest.raises(InvalidMountRootError):
        store.relocated(tree, "not/absolute")
    assert all_layers(tree.directory) == []
    assert list(store.layout.staging.iterdir()) == []


def test_a_layer_may_not_be_out_of_proportion(
    store: Store, tree: SealedTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relocated, "_GROWTH", 0)
    monkeypatch.setattr(relocated, "_GROWTH_PER_FILE", 10)
    with pytest.raises(LayerTooLargeError, match="more than 10 bytes"):
        store.relocated(tree, "/cache")
    assert all_layers(tree.directory) == []
    assert list(store.layout.staging.iterdir()) == []


def test_the_longest_unused_give_way_and_those_in_use_never_do(store: Store, tree: SealedTree) -> None:
    oldest = made(store, tree, "/used")
    prepared = prepare(store, tree, target=store.root.parent / "view", mode=Mode.COPY)
    view = made(store, tree, str(prepared.target))
    try:
        for number in range(MOST_IDLE):
            set_used(made(store, tree, f"/idle-{number}"), number + 1.0)
        set_used(oldest, 0.0)
        set_used(view, 0.0)
        made(store, tree, "/one-more")
        idle = {f"/idle-{number}" for number in range(MOST_IDLE)}
        # The one that was just made is about to be used, and does not count as idle.
        assert roots(tree) == idle | {"/one-more", view.root}
        made(store, tree, "/and-another")
        assert roots(tree) == (idle - {"/idle-0"}) | {"/one-more", "/and-another", view.root}
        assert store.collect(keep={tree.digest}, layers_unused_seconds=-1).removed == ()
        assert roots(tree) == {view.root}
        assert (prepared.lowers[0] / GROUP).is_file()
    finally:
        discard(prepared)


def test_what_was_not_of_use_for_long_is_collected_and_the_tree_stays(store: Store, tree: SealedTree) -> None:
    old, young = made(store, tree, "/old"), made(store, tree, "/young")
    set_used(old, old.directory.stat().st_mtime - 7200)
    collected = store.collect(keep={tree.digest}, layers_unused_seconds=3600)
    assert (collected.removed, collected.bytes) == ((), old.bytes)
    assert roots(tree) == {"/young"}
    assert store.relocated(tree, "/young") == young


def test_layers_go_with_their_tree(store: Store, tree: SealedTree) -> None:
    layer = made(store, tree, "/cache")
    collected = store.collect()
    assert collected.removed == (tree.digest,)
    assert collected.bytes == tree.bytes + layer.bytes
    assert not layer.directory.exists()
    with pytest.raises(TreeDamagedError):
        store.relocated(SealedTree(tree.directory, tree.record), "/cache")


def test_a_layer_that_is_collected_before_it_is_used_is_no_lower_of_anything(
    store: Store, tree: SealedTree
) -> None:
    layer = made(store, tree, "/cache")
    assert store.collect(keep={tree.digest}, layers_unused_seconds=-1).removed == ()
    place = store.root.parent / "place"
    place.mkdir()
    wish = Wish(tree, store.root.parent / "target", place, Mode.OVERLAY, Bounds(1 << 20, 64), layer)
    with pytest.raises(TreeMissingError, match="try again"):
        host(store, wish)
    assert hosted_views(store.layout, place) == []
    assert list(place.iterdir()) == []


def test_a_damaged_record_of_a_layer_has_it_made_again(store: Store, tree: SealedTree) -> None:
    layer = made(store, tree, "/cache")
    (layer.directory / "layer.json").write_text("{")
    assert made(store, tree, "/cache") == layer


@pytest.mark.parametrize("damage", ["inventory", "file"])
def test_damage_is_told_from_a_failing_disk(store: Store, tree: SealedTree, damage: str) -> None:
    if damage == "file":
        (tree.path / GROUP).unlink()
    else:
        (tree.directory / "inventory.json").write_text("{")
    with pytest.raises(TreeDamagedError):
        store.relocated(tree, "/cache")
    assert list(store.layout.staging.iterdir()) == []


def test_of_two_that_make_the_same_layer_the_second_takes_the_firsts(store: Store, tree: SealedTree) -> None:
    first = made(store, tree, "/cache")
    inode = first.directory.stat().st_ino
    built = store.layout.staging / "built"
    relocated.build_layer(tree.path, tree.inventory, "/cache", built, limit_bytes=1 << 20)
    assert relocation.install_layer(store.layout, tree, built, "/cache") == first
    assert first.directory.stat().st_ino == inode


@pytest.mark.root
def test_a_view_notes_its_layer_and_holds_it(store: Store, tree: SealedTree) -> None:
    layer = made(store, tree, "/cache")
    set_used(layer, 0.0)
    place, target = store.root.parent / "place", store.root.parent / "target"
    view = host(store, Wish(tree, target, place, Mode.OVERLAY, Bounds(1 << 20, 64), layer))
    try:
        assert layer.directory.stat().st_mtime > 0
        assert json.loads((target / GROUP).read_bytes())["child_paths"]["add.cubin"].startswith("/cache/")
        (found,) = hosted_views(store.layout, place)
        assert found.journal.layer == layer.name
        assert store.collect(keep={tree.digest}, layers_unused_seconds=-1).removed == ()
        assert roots(tree) == {"/cache"}
        set_used(layer, 0.0)
    finally:
        unmount(str(target))
        drop(store.layout, view)
    store.collect(keep={tree.digest}, layers_unused_seconds=3600)
    assert roots(tree) == {"/cache"}, "it was of use until a moment ago"
    store.collect(keep={tree.digest}, layers_unused_seconds=-1)
    assert roots(tree) == set()
