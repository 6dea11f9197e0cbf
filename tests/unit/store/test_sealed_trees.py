"""What a sealed tree says of itself, and how damage is found."""

from pathlib import Path

import pytest

from gkm.base.digests import InvalidDigestError, digest_bytes
from gkm.store.errors import StoreError, TreeMissingError
from gkm.store.sealed import Damage
from gkm.store.store import Store
from support.views import seal_files, triton_files

FILES = {"a": b"1", "d/b": b"22", "d/c": b"333"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


def test_it_is_found_again_from_the_directory_alone(store: Store) -> None:
    made = seal_files(store, triton_files("add"))
    found = Store.open(store.root).tree(made.digest)
    assert found is not None
    assert found == made
    assert found.inventory == made.inventory
    assert found.labels == {"a": "b"}
    assert found.image == "gkm.test/cache:1"
    assert found.lower_directories() == (found.path,)
    assert store.trees() == [made]


def test_an_intact_tree_has_no_damage(store: Store) -> None:
    assert store.verify(seal_files(store, FILES).digest) == ()


def test_every_kind_of_damage_is_named(store: Store) -> None:
    tree = seal_files(store, FILES | {"e": b"4444", "f": b"55555"})
    (tree.path / "a").write_bytes(b"2")
    (tree.path / "d/b").unlink()
    (tree.path / "d/new").write_bytes(b"")
    (tree.path / "e").unlink()
    (tree.path / "e").symlink_to("f")
    (tree.path / "link").symlink_to("/etc/passwd")
    assert store.verify(tree.digest) == (
        Damage("a", "changed"),
        Damage("d/b", "missing"),
        Damage("d/new", "added"),
        Damage("e", "changed"),
        Damage("link", "added"),
    )


def test_a_tree_that_is_not_there_is_told_from_text_that_is_no_digest(store: Store) -> None:
    assert store.tree(digest_bytes(b"")) is None
    with pytest.raises(TreeMissingError):
        store.verify(digest_bytes(b""))
    for text in ("", "latest", "sha256:../../etc", "sha256:" + "A" * 64):
        with pytest.raises(InvalidDigestError):
            store.tree(text)


@pytest.mark.parametrize("name", ["record.json", "inventory.json", "listing.json"])
def test_a_damaged_record_says_what_to_do(store: Store, name: str) -> None:
    tree = seal_files(store, FILES)
    (tree.directory / name).write_text("{")

    def read_all() -> None:
        found = store.tree(tree.digest)
        assert found is not None
        found.listing()
        assert found.inventory

    with pytest.raises(StoreError, match="stage the image again"):
        read_all()
    assert store.collect().removed == (tree.digest,)
