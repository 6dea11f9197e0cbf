"""Files are whole or absent; trees go completely, whatever their modes."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gkm.base.files import remove_tree, write_atomic


def test_a_failed_write_leaves_the_old_bytes_and_nothing_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")
    with pytest.raises(TypeError):
        write_atomic(path, "text is not bytes")  # type: ignore[arg-type]  # the failure under test
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_written_file_has_the_mode_that_was_asked_for(tmp_path: Path) -> None:
    write_atomic(tmp_path / "file", b"", mode=0o640)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_removing_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "link").symlink_to(tmp_path / "kept")
    remove_tree(tmp_path / "gone")
    assert (tmp_path / "kept" / "file").exists()
    assert not (tmp_path / "gone").exists()
    remove_tree(tmp_path / "gone")


@pytest.fixture
def anyones_path() -> Iterator[Path]:
    """A directory that other users reach: pytest's own are closed to them."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o711)
        yield Path(made)


def test_removing_opens_what_its_owner_closed(anyones_path: Path) -> None:
    """Seen by an ordinary user only: root passes every mode. So a child becomes one."""
    tree = anyones_path / "tree"
    for closed in (tree / "no-read", tree / "no-write"):
        closed.mkdir(parents=True)
        (closed / "file").touch()
    if os.geteuid() == 0:
        for path in (anyones_path, tree, *tree.rglob("*")):
            os.chown(path, 123_456, 123_456)
    (tree / "no-read").chmod(0o000)
    (tree / "no-write").chmod(0o500)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(123_456, 123_456, 123_456)
                os.setresuid(123_456, 123_456, 123_456)
            remove_tree(tree)
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not tree.exists()
