"""Where unpacking writes, with which modes, and what it takes from several layers."""

import os
from pathlib import Path

import pytest

from gkm.images.unpack_errors import DestinationNotEmptyError
from support import archives
from support.archives import directory, file, joined, layer, unpacked

ONE = joined([directory("a"), file("a/b", b"one"), file("run", mode=0o755)])


def modes(root: Path) -> dict[str, int]:
    return {str(path.relative_to(root)): path.stat().st_mode & 0o777 for path in [root, *root.rglob("*")]}


def test_an_absent_destination_is_made(tmp_path: Path) -> None:
    unpacked(tmp_path / "new", layer(ONE))
    assert archives.contents(tmp_path / "new") == {"a/b": b"one", "run": b"content"}


def test_an_empty_destination_is_used_even_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    unpacked(tmp_path / "link", layer(ONE))
    assert "a/b" in archives.contents(tmp_path / "empty")


@pytest.mark.parametrize("kind", ["file", "full", "dangling"])
def test_a_destination_in_use_is_left_as_it_is(tmp_path: Path, kind: str) -> None:
    destination = tmp_path / "used"
    if kind == "file":
        destination.write_bytes(b"mine")
    elif kind == "dangling":
        destination.symlink_to("nowhere")
    else:
        archives.write_tree(destination, {"mine": b"mine"})
    with pytest.raises(DestinationNotEmptyError):
        unpacked(destination, layer(ONE))
    assert archives.contents(tmp_path) in ({"used": b"mine"}, {"used/mine": b"mine"}, {})


def test_the_umask_decides(tmp_path: Path, umask_022: None) -> None:
    os.umask(0o027)
    unpacked(tmp_path / "t", layer(ONE))
    assert modes(tmp_path / "t") == {".": 0o750, "a": 0o750, "a/b": 0o640, "run": 0o750}


def test_open_to_all_whatever_the_umask(tmp_path: Path, umask_022: None) -> None:
    os.umask(0o077)
    unpacked(tmp_path / "t", layer(ONE), open_to_all=True)
    assert modes(tmp_path / "t") == {".": 0o777, "a": 0o777, "a/b": 0o666, "run": 0o777}


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    before = archives.open_descriptors()
    unpacked(tmp_path / "t", layer(joined([file("/".join("abcdefghij") + "/x"), file("y")])))
    assert archives.open_descriptors() == before


def test_a_later_layer_replaces_files_of_an_earlier_one(tmp_path: Path) -> None:
    later = joined([file("a/b", b"two!", mode=0o755), file("a/c", b"new")])
    result = unpacked(tmp_path / "t", layer(ONE), layer(later, "zstd"))
    assert archives.contents(tmp_path / "t") == {"a/b": b"two!", "a/c": b"new", "run": b"content"}
    assert [(member.path, member.bytes, member.executable) for member in result.members] == [
        ("a/b", 4, True),
        ("a/c", 3, False),
        ("run", 7, True),
    ]


def test_select_renames_and_leaves_out(tmp_path: Path) -> None:
    def select(name: str) -> str | None:
        return {"a": "", "a/b": "deep/er", "empty": "kept"}.get(name)

    result = unpacked(tmp_path / "t", layer(joined([ONE[:-1024], directory("empty")])), select=select)
    assert archives.contents(tmp_path / "t") == {"deep/er": b"one"}
    assert (tmp_path / "t/kept").is_dir()
    assert result.files == 1


def test_no_layers_make_an_empty_tree(tmp_path: Path) -> None:
    assert unpacked(tmp_path / "t").files == 0
    assert list((tmp_path / "t").iterdir()) == []
