"""A directory becomes a store, stays one, and nothing else is taken for one."""

import multiprocessing
import stat
from pathlib import Path

import pytest

from gkm.base.errors import UsageError
from gkm.store.claims import abandoned, claim, is_owned
from gkm.store.errors import NotAStoreError, StoreError
from gkm.store.journal import Journal, current_boot, read_journal, this_process, write_journal
from gkm.store.mode import Mode
from gkm.store.store import Store


def test_opening_makes_what_is_missing_and_changes_nothing_the_second_time(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "a" / "b")
    before = sorted(p.relative_to(store.root).as_posix() for p in store.root.rglob("*"))
    assert Store.open(store.root) == store
    assert sorted(p.relative_to(store.root).as_posix() for p in store.root.rglob("*")) == before
    assert store.trees() == []
    assert store.mounts() == []
    for private in ("trees", "staging", "locks", "trash"):
        assert stat.S_IMODE((store.root / private).stat().st_mode) == 0o700


def test_a_link_to_a_store_is_that_store(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert Store.open(tmp_path / "link").root == store.root


def test_a_directory_of_something_else_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(NotAStoreError, match=r"thesis\.txt") as caught:
        Store.open(tmp_path)
    assert isinstance(caught.value, UsageError)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_store_of_a_later_version_is_refused(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    (store.root / "version").write_text("gkm-store 2\n")
    with pytest.raises(NotAStoreError, match="gkm-store 2"):
        Store.open(store.root)


def test_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError):
        Store.open(tmp_path / "file")


def open_store(path: str) -> str:
    return str(Store.open(Path(path)).root)


def test_many_may_make_one_store_at_once(tmp_path: Path) -> None:
    with multiprocessing.get_context("fork").Pool(8) as pool:
        roots = pool.map(open_store, [str(tmp_path / "store")] * 32, chunksize=1)
    assert set(roots) == {str(tmp_path / "store")}
    assert not list((tmp_path / "store").glob(".version.*"))


def test_a_claim_is_owned_until_it_is_closed(tmp_path: Path) -> None:
    layout = Store.open(tmp_path / "store").layout
    ours = claim(layout, layout.staging)
    assert is_owned(ours.path)
    assert list(abandoned(layout, layout.staging)) == []
    ours.close()
    ours.close()
    assert not is_owned(ours.path)
    (taken,) = abandoned(layout, layout.staging)
    assert taken.path == ours.path
    assert is_owned(ours.path)
    taken.close()
    assert not is_owned(tmp_path / "gone")


def test_a_scratch_directory_goes_with_its_block(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    with store.scratch() as directory:
        (directory / "file").touch()
        Store.open(store.root)
        assert directory.is_dir()
    assert list(store.layout.staging.iterdir()) == []


def test_a_damaged_journal_names_the_directory_to_delete(tmp_path: Path) -> None:
    (tmp_path / "journal.json").write_text('{"version": 1')
    with pytest.raises(StoreError, match=str(tmp_path)):
        read_journal(tmp_path)
    assert read_journal(tmp_path / "none") is None


@pytest.mark.parametrize("left", [b"", bytes(700)], ids=["empty", "zeros"])
def test_a_view_whose_journal_a_power_cut_emptied_is_thrown_away(tmp_path: Path, left: bytes) -> None:
    store = Store.open(tmp_path / "store")
    cut = store.layout.mounts / "0123456789abcdef"
    cut.mkdir()
    (cut / "journal.json").write_bytes(left)
    assert read_journal(cut) is None
    assert Store.open(store.root).mounts() == []
    assert not cut.exists()


def test_a_journal_knows_its_boot(tmp_path: Path) -> None:
    journal = Journal(
        version=1,
        mode=Mode.OVERLAY,
        target="/view",
        digest=None,
        made_directories=(),
        persistent=True,
        owner=this_process(),
        boot_id=current_boot(),
    )
    write_journal(tmp_path, journal)
    assert read_journal(tmp_path) == journal
    assert journal.from_this_boot
