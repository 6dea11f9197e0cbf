"""What cannot be packed is refused in words, and nothing is left in the directory of the blobs."""

import os
from collections.abc import ItemsView, Iterator
from pathlib import Path

import pytest

from gkm.base.errors import UsageError
from gkm.images.pack import pack
from gkm.images.pack_errors import SourceChangedError, UnpackableError
from gkm.images.sources import read_again, survey

BAD_PATHS = [
    "",
    "/etc/passwd",
    "../up",
    "a/../../b",
    "a//b",
    "./a",
    "a/",
    "a/./b",
    "a\nb",
    "a\x1b[31mb",
    "bad\udcff",
    "a/.wh.b",
    "x" * 256,
    "/".join("d" * 65),
    "io.gkm.manifest/SHA256SUMS",
]


@pytest.fixture
def into(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "blobs"
    directory.mkdir()
    yield directory
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize("path", BAD_PATHS)
def test_paths_that_would_not_unpack(path: str, into: Path) -> None:
    with pytest.raises(UnpackableError) as caught:
        pack({path: b"x", "fine": b"y"}, labels={}, title=None, into=into)
    assert isinstance(caught.value, UsageError)
    assert str(caught.value).isprintable()


def test_a_file_that_is_a_directory_too(into: Path) -> None:
    with pytest.raises(UnpackableError, match="'a/b' would be a file and a directory"):
        pack({"a/b": b"x", "a/b/c": b"y"}, labels={}, title=None, into=into)


def test_no_files(into: Path) -> None:
    with pytest.raises(UnpackableError, match="no files"):
        pack({}, labels={}, title=None, into=into)


def test_what_readers_would_take_for_a_bomb(into: Path, tmp_path: Path) -> None:
    zeros = tmp_path / "zeros"
    with zeros.open("wb") as file:
        file.truncate(100 << 20)
    with pytest.raises(UnpackableError, match="Pack it with gzip"):
        pack({"a": zeros}, labels={}, title=None, into=into)


def test_a_named_pipe_is_refused_without_waiting_for_its_writer(into: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnpackableError, match="not a regular file"):
        pack({"a": tmp_path / "pipe"}, labels={}, title=None, into=into)


def test_a_file_that_went_away(into: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceChangedError, match="went away"):
        pack({"a": tmp_path / "gone"}, labels={}, title=None, into=into)


@pytest.mark.parametrize("after", [b"0123456789 and more", b"012345", b"012345678X", b""])
def test_a_file_that_changes_between_the_readings(into: Path, tmp_path: Path, after: bytes) -> None:
    """A compiler that still writes to the cache."""
    changing = tmp_path / "changing"
    changing.write_bytes(b"0123456789")

    class Meanwhile(dict[str, Path | bytes]):
        """Files that change once all of them have been looked at."""

        def items(self) -> ItemsView[str, Path | bytes]:
            class Items(ItemsView[str, Path | bytes]):
                def __iter__(view) -> Iterator[tuple[str, Path | bytes]]:  # noqa: N805
                    yield "a", changing
                    changing.write_bytes(after)

            return Items(self)

    with pytest.raises(SourceChangedError, match="a changed while it was packed"):
        pack(Meanwhile({"a": changing}), labels={}, title=None, into=into)


def test_a_file_that_grows_gives_no_byte_beyond_what_was_announced(tmp_path: Path) -> None:
    growing = tmp_path / "growing"
    growing.write_bytes(b"x" * 1000)
    (source,) = survey({"a": growing})
    growing.write_bytes(b"x" * 10_000_000)
    read: list[int] = []
    with pytest.raises(SourceChangedError):
        read.extend(len(piece) for piece in read_again(source))
    assert sum(read) <= 1000


def test_a_destination_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        pack({"a": b"x"}, labels={}, title=None, into=tmp_path / "absent")
