"""A service mounts for others: attach, detach, busy targets, views that outlive the process."""

import os
import subprocess
from pathlib import Path

import pytest

from gkm.store.attach import attach, detach
from gkm.store.errors import MountBusyError, MountError
from gkm.store.mode import Mode
from gkm.store.prepare import discard, prepare, prepared_mount
from gkm.store.store import Store
from support.views import everything, seal_files, triton_files

pytestmark = pytest.mark.root


def test_attaching_and_detaching_twice_changes_nothing(store: Store, tmp_path: Path) -> None:
    tree = seal_files(store, triton_files("add"))
    with prepared_mount(store, tree, target=tmp_path, mode=Mode.OVERLAY) as prepared:
        detach(prepared)
        attach(prepared)
        attach(prepared)
        assert mounted_at(tmp_path) == 1
        (tmp_path / "made").write_text("x")
        (found,) = store.mounts()
        assert found.mounted
        detach(prepared)
        detach(prepared)
        assert mounted_at(tmp_path) == 0
        assert everything(prepared.upper) == {"made": b"x"}


def test_a_busy_view_is_said_to_be_busy_and_can_be_left_to_its_last_user(
    store: Store, tmp_path: Path
) -> None:
    with prepared_mount(store, None, target=tmp_path, mode=Mode.OVERLAY) as prepared:
        attach(prepared)
        held = os.open(tmp_path / "held", os.O_CREAT | os.O_WRONLY)
        try:
            with pytest.raises(MountBusyError, match=str(tmp_path)):
                detach(prepared)
            assert mounted_at(tmp_path) == 1
            detach(prepared, lazily=True)
            assert mounted_at(tmp_path) == 0
        finally:
            os.close(held)


def test_a_copy_can_be_attached_too(store: Store, tmp_path: Path) -> None:
    tree = seal_files(store, triton_files("add"))
    with prepared_mount(store, tree, target=tmp_path, mode=Mode.COPY) as prepared:
        attach(prepared)
        assert everything(tmp_path).keys() == triton_files("add").keys()
        (tmp_path / "made").write_text("x")
        detach(prepared)
        assert everything(prepared.upper) == {"made": b"x"}
    assert list(tmp_path.iterdir()) == []


def test_an_overlay_of_users_has_no_place_outside_a_session(store: Store) -> None:
    with (
        prepared_mount(store, None, mode=Mode.USER_OVERLAY) as prepared,
        pytest.raises(MountError, match="run_in_view"),
    ):
        attach(prepared)


def test_the_kernels_refusal_is_told_and_leaves_nothing(store: Store, tmp_path: Path) -> None:
    with prepared_mount(store, None, target=tmp_path, mode=Mode.OVERLAY) as prepared:
        prepared.work.rmdir()
        with pytest.raises(MountError, match="No such file"):
            attach(prepared)
    assert mounted_at(tmp_path) == 0


def test_a_persistent_view_survives_reopening_and_is_undone_by_another(store: Store, tmp_path: Path) -> None:
    tree = seal_files(store, triton_files("add"))
    prepared = prepare(store, tree, target=tmp_path / "view", mode=Mode.OVERLAY, persistent=True)
    attach(prepared)
    prepared.claim.close()
    again = Store.open(store.root)
    (found,) = again.mounts()
    assert (found.mounted, found.owned, found.journal.digest) == (True, False, tree.digest)
    again.undo(found)
    assert again.mounts() == []
    assert not (tmp_path / "view").exists()


def test_unmounting_does_not_wait_for_what_others_write(store: Store, tmp_path: Path) -> None:
    """`volatile` is on: without it the kernel syncs the whole filesystem below at every unmount."""
    with prepared_mount(store, None, target=tmp_path, mode=Mode.OVERLAY) as prepared:
        attach(prepared)
        try:
            assert (prepared.work / "work" / "incompat" / "volatile").exists()
        finally:
            detach(prepared)


def test_discarding_while_a_process_still_looks_takes_the_files_all_the_same(
    store: Store, tmp_path: Path
) -> None:
    prepared = prepare(store, None, target=tmp_path, mode=Mode.OVERLAY)
    attach(prepared)
    with subprocess.Popen(["sleep", "60"], cwd=tmp_path) as looking:
        try:
            detach(prepared, lazily=True)
            discard(prepared)
            assert store.mounts() == []
        finally:
            looking.kill()


def mounted_at(target: Path) -> int:
    return Path("/proc/self/mountinfo").read_text().count(f" {target} ")


def test_an_error_while_attached_leaves_no_mount(store: Store, tmp_path: Path) -> None:
    tree = seal_files(store, triton_files("add"))

    def fail_while_attached() -> None:
        with prepared_mount(store, tree, target=tmp_path, mode=Mode.OVERLAY) as prepared:
            attach(prepared)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_while_attached()
    assert mounted_at(tmp_path) == 0
    assert store.verify(tree.digest) == ()
