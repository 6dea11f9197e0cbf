"""`gkm diff`: which entries and files set two caches apart."""

import shutil
from pathlib import Path

import pytest

from gkm.caches.compare import Change, Difference, compare
from support.made_caches import key, triton_entry, write

NOTHING = Difference(added=(), removed=(), changed=())


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    old, new = tmp_path / "old", tmp_path / "new"
    triton_entry(old / key("k"), stood_at="/x")
    write(old / "notes", "text")
    shutil.copytree(old, new)
    return old, new


def test_equal_trees_do_not_differ_whatever_their_times_and_modes(pair: tuple[Path, Path]) -> None:
    (pair[1] / "notes").chmod(0o600)

    assert compare(*pair) == NOTHING


def test_one_changed_byte_is_named_with_its_entry(pair: tuple[Path, Path]) -> None:
    file = pair[1] / key("k") / "add.cubin"
    file.write_bytes(file.read_bytes()[:-1] + b"!")

    change = Change(entry=key("k"), name="add", files=(f"{key('k')}/add.cubin",))
    assert compare(*pair) == Difference(added=(), removed=(), changed=(change,))


def test_an_entry_more_is_added_and_the_other_way_removed(pair: tuple[Path, Path]) -> None:
    triton_entry(pair[1] / key("m"), name="scale")

    forth, back = compare(*pair), compare(*reversed(pair))

    assert forth.added == back.removed
    assert [(c.entry, c.name, len(c.files)) for c in forth.added] == [(key("m"), "scale", 4)]
    assert (forth.removed, forth.changed, back.added, back.changed) == ((), (), (), ())


def test_a_file_that_came_to_an_entry_changed_it(pair: tuple[Path, Path]) -> None:
    write(pair[1] / key("k") / "add.llir", "ir")

    assert [c.files for c in compare(*pair).changed] == [(f"{key('k')}/add.llir",)]
    assert not compare(*pair).added


def test_files_outside_entries_are_named_alone(pair: tuple[Path, Path]) -> None:
    write(pair[1] / "notes", "other")
    write(pair[1] / "more", "")

    assert compare(*pair) == Difference(
        added=(Change(entry=None, name="more", files=("more",)),),
        removed=(),
        changed=(Change(entry=None, name="notes", files=("notes",)),),
    )
