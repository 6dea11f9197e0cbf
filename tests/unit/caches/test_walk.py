"""A directory is listed whole, inside its bounds, and never left."""

import os
import stat
from pathlib import Path

import pytest

from gkm.base.errors import UsageError
from gkm.caches.tree import TreeReadError, TreeTooLargeError, UnsafeTreeError
from gkm.caches.walk import TreeLimits, list_tree, list_upper
from support.made_caches import write


def test_every_file_is_listed_in_order_with_its_size(tmp_path: Path) -> None:
    write(tmp_path / "b" / "c", b"12")
    write(tmp_path / "a.lock", b"")
    write(tmp_path / ".hidden", b"1")

    tree = list_tree(tmp_path)

    assert list(tree.files) == [".hidden", "a.lock", "b/c"]
    assert tree.files["b/c"].size == 2
    assert tree.files_in("b") == ["c"]
    assert tree.directories_in(".") == ["b"]


def test_directories_that_a_compiler_is_writing_are_left_out(tmp_path: Path) -> None:
    write(tmp_path / "KEY" / "tmp.pid_12_abc" / "half", b"")
    write(tmp_path / "KEY" / "whole", b"")

    assert list(list_tree(tmp_path).files) == ["KEY/whole"]
    assert list(list_upper(tmp_path).files) == ["KEY/whole"]


def test_a_link_inside_counts_as_the_file_or_directory_it_names(tmp_path: Path) -> None:
    write(tmp_path / "real" / "file", b"content")
    (tmp_path / "link").symlink_to("real/file")
    (tmp_path / "directory").symlink_to(tmp_path / "real")

    tree = list_tree(tmp_path)

    assert list(tree.files) == ["directory/file", "link", "real/file"]
    assert tree.read("link", 100) == b"content"
    assert tree.read("directory/file", 100) == b"content"


def test_the_tree_may_be_named_through_a_link(tmp_path: Path) -> None:
    write(tmp_path / "real" / "file", b"content")
    (tmp_path / "name").symlink_to("real")

    assert list_tree(tmp_path / "name").read("file", 100) == b"content"


@pytest.mark.parametrize(
    ("target", "words"),
    [("/etc/passwd", "leaves the tree"), ("../outside", "leaves the tree"), ("gone", "leads nowhere")],
)
def test_a_link_that_leaves_or_dangles_is_refused_by_name(tmp_path: Path, target: str, words: str) -> None:
    write(tmp_path / "outside", b"")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "bad-link").symlink_to(target)

    with pytest.raises(UnsafeTreeError, match=f"'bad-link' {words}"):
        list_tree(tmp_path / "tree")


@pytest.mark.parametrize("target", [".", "..", "../a"])
def test_a_link_in_a_circle_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "again").symlink_to(target)

    with pytest.raises(UnsafeTreeError, match="leads back"):
        list_tree(tmp_path)


def test_two_links_that_name_each_other_end_at_the_depth_limit(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "y").mkdir()
    (tmp_path / "x" / "l").symlink_to("../y")
    (tmp_path / "y" / "m").symlink_to("../x")

    with pytest.raises(TreeTooLargeError, match="directories deep"):
        list_tree(tmp_path)


def test_a_fifo_is_refused_by_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(UnsafeTreeError, match="'pipe' is a device, socket or FIFO"):
        list_tree(tmp_path)


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))).touch()

    with pytest.raises(UnsafeTreeError, match="not UTF-8"):
        list_tree(tmp_path)


def test_what_is_no_directory_is_wrong_usage(tmp_path: Path) -> None:
    write(tmp_path / "file", b"")

    for path in (tmp_path / "file", tmp_path / "absent"):
        with pytest.raises(UsageError, match="is not a directory"):
            list_tree(path)


def test_entries_levels_and_seconds_are_bounded(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b" / "c" / "file", b"")

    with pytest.raises(TreeTooLargeError, match="more than 3 files"):
        list_tree(tmp_path, TreeLimits(entries=3))
    with pytest.raises(TreeTooLargeError, match="more than 2 directories deep"):
        list_tree(tmp_path, TreeLimits(depth=2))
    with pytest.raises(TreeTooLargeError, match="could not be listed"):
        list_upper(tmp_path, TreeLimits(seconds=0))
    assert len(list_tree(tmp_path, TreeLimits(entries=4, depth=3)).files) == 1


def test_a_file_swapped_for_a_link_after_the_listing_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "secret", b"secret")
    write(tmp_path / "tree" / "d" / "file", b"mine")
    tree = list_tree(tmp_path / "tree")
    (tmp_path / "tree" / "d" / "file").unlink()
    (tmp_path / "tree" / "d" / "file").symlink_to(tmp_path / "secret")

    with pytest.raises(TreeReadError, match="d/file"):
        tree.read("d/file", 100)


def test_a_directory_swapped_for_a_link_after_the_listing_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "file", b"secret")
    write(tmp_path / "tree" / "d" / "file", b"mine")
    tree = list_tree(tmp_path / "tree")
    (tmp_path / "tree" / "d").rename(tmp_path / "tree" / "moved")
    (tmp_path / "tree" / "d").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(TreeReadError):
        tree.read("d/file", 100)


def test_reading_stops_at_the_limit(tmp_path: Path) -> None:
    write(tmp_path / "file", b"12345")
    tree = list_tree(tmp_path)

    assert tree.read("file", 5) == b"12345"
    assert tree.read("file", 4) is None
    assert tree.head("file", 4) == b"1234"


def test_an_upper_is_listed_without_links_and_special_files(tmp_path: Path) -> None:
    write(tmp_path / "file", b"")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "directory-link").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))).touch()

    assert list(list_upper(tmp_path).files) == ["file"]


def test_what_cannot_be_read_in_an_upper_is_none(tmp_path: Path) -> None:
    write(tmp_path / "file", b"mine")
    tree = list_upper(tmp_path)
    (tmp_path / "file").unlink()
    os.mkfifo(tmp_path / "file")

    assert tree.read("file", 100) is None


@pytest.mark.root
def test_a_whiteout_in_an_upper_is_no_file(tmp_path: Path) -> None:
    os.mknod(tmp_path / "deleted", stat.S_IFCHR, os.makedev(0, 0))

    assert not list_upper(tmp_path).files
    with pytest.raises(UnsafeTreeError, match="'deleted'"):
        list_tree(tmp_path)
