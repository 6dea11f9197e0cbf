"""Each archive of the corpus is refused by its name, in every compression, and nothing is left behind."""

import subprocess
from pathlib import Path

import pytest

from gkm.base.errors import GKMError
from gkm.images.limits import Compression
from gkm.images.unpack_errors import (
    DiffIDMismatchError,
    DuplicateMemberError,
    LayerError,
    SparseFileError,
    TooManyEntriesError,
)
from support import archives, parts
from support.archives import digest, directory, file, joined, layer, unpacked
from support.hostile import HOSTILE

COMPRESSIONS: list[Compression | None] = [None, "gzip", "zstd"]


def assert_refused(scratch: Path, error: type[GKMError], *layers, **options) -> GKMError:
    """Unpacking raises `error`, and neither the tree nor anything beside it is there afterwards."""
    (scratch / "a/b/empty").mkdir(parents=True)
    descriptors = archives.open_descriptors()
    for destination in (scratch / "a/b/new", scratch / "a/b/empty"):
        with pytest.raises(error) as caught:
            unpacked(destination, *layers, **options)
        assert type(caught.value) is error
    assert sorted(scratch.rglob("*")) == [scratch / "a", scratch / "a/b", scratch / "a/b/empty"]
    assert archives.open_descriptors() == descriptors
    return caught.value


@pytest.mark.parametrize("name", HOSTILE)
def test_refused_by_name(tmp_path: Path, name: str) -> None:
    hostile = HOSTILE[name]
    for compression in COMPRESSIONS:
        scratch = tmp_path / (compression or "plain")
        error = assert_refused(
            scratch, hostile.error, layer(hostile.archive, compression), limits=hostile.limits
        )
        assert error.reason == hostile.error.__name__.removesuffix("Error")
        assert str(error).isprintable()


def test_what_is_not_selected_is_refused_alike(tmp_path: Path) -> None:
    for name, hostile in HOSTILE.items():
        if hostile.error is not DuplicateMemberError:  # a directory that is not made clashes with nothing
            options = {"limits": hostile.limits, "select": lambda _: None}
            assert_refused(tmp_path / name, hostile.error, layer(hostile.archive), **options)


def test_reasons_are_distinct() -> None:
    """Conditions and reports carry the reason alone."""
    classes = [LayerError, *LayerError.__subclasses__()]
    assert len({error.reason for error in classes}) == len(classes)


def test_a_bad_later_layer_takes_the_good_ones_with_it(tmp_path: Path) -> None:
    good = joined([file("a/b"), file("c")])
    for name in ("symbolic-link", "trailing-text", "cut-in-a-file"):
        hostile = HOSTILE[name]
        assert_refused(tmp_path / name, hostile.error, layer(good), layer(hostile.archive, "zstd"))


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (joined([file("a")]), joined([file("a/b")])),
        (joined([file("a/b")]), joined([file("a")])),
        (joined([file("a")]), joined([directory("a")])),
    ],
)
def test_layers_that_disagree_about_files_and_directories(
    tmp_path: Path, earlier: bytes, later: bytes
) -> None:
    assert_refused(tmp_path, DuplicateMemberError, layer(earlier), layer(later))


def test_two_members_that_would_become_one_file(tmp_path: Path) -> None:
    archive = joined([file("io.triton.cache/k"), file("io.vllm.cache/k")])
    assert_refused(
        tmp_path, DuplicateMemberError, layer(archive), select=lambda name: name.rpartition("/")[2]
    )


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_other_bytes_than_the_config_names(tmp_path: Path, compression: Compression | None) -> None:
    archive = joined([file("k")])
    unpacked(tmp_path / "right", layer(archive, compression, diff_id=digest(archive)))
    assert_refused(
        tmp_path / "wrong", DiffIDMismatchError, layer(archive, compression, diff_id=digest(b"another"))
    )


def test_limits_span_layers(tmp_path: Path) -> None:
    limits = HOSTILE["entries"].limits
    layers = [layer(joined([file(name, b"")])) for name in "abcd"]
    assert_refused(tmp_path, TooManyEntriesError, *layers, limits=limits)


def test_a_thousand_layers(tmp_path: Path) -> None:
    assert_refused(tmp_path, TooManyEntriesError, *[layer(joined([file("k")]))] * 1000)


@pytest.mark.parametrize("dialect", ["gnu", "posix"])
def test_sparse_files_as_gnu_tar_writes_them(tmp_path: Path, dialect: str) -> None:
    tar = parts.need_program("tar", "tar")
    (tmp_path / "root").mkdir()
    with (tmp_path / "root/k").open("wb") as holes:
        holes.truncate(1 << 30)
    command = [tar, "-S", f"--format={dialect}", "-C", tmp_path / "root", "-cf", "-", "k"]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    assert len(archive) < 20_000
    assert_refused(tmp_path / "scratch", SparseFileError, layer(archive))
