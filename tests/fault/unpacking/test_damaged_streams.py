"""Streams that are cut, damaged or continued are errors, whatever the place; nothing is left behind."""

import contextlib
import itertools
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gkm.images.limits import Compression, Limits
from gkm.images.unpack import LayerStream
from gkm.images.unpack_errors import (
    CorruptLayerError,
    LayerError,
    TooManyEntriesError,
    TrailingDataError,
    TruncatedLayerError,
)
from support import archives
from support.archives import LAYER_TYPE, chunks, compress, digest, file, joined, unpacked, zstd

ARCHIVE = joined([file("d/noise", random.Random(7).randbytes(3000)), file("d/text", b"text " * 500)])
COMPRESSIONS: list[Compression | None] = [None, "gzip", "zstd"]
COMPRESSED: list[Compression] = ["gzip", "zstd"]


def stream(data: bytes, compression: Compression | None, cut: int = 97) -> LayerStream:
    """A layer whose config is right, and whose bytes may not be."""
    return LayerStream(LAYER_TYPE[compression], chunks(data, cut), digest(ARCHIVE))


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(COMPRESSIONS), st.floats(0, 1, exclude_max=True))
def test_a_stream_cut_anywhere(compression: Compression | None, where: float) -> None:
    data = compress(ARCHIVE, compression)
    with tempfile.TemporaryDirectory() as scratch:
        with pytest.raises(TruncatedLayerError):
            unpacked(Path(scratch) / "t", stream(data[: int(where * len(data))], compression))
        assert list(Path(scratch).iterdir()) == []


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(COMPRESSIONS), st.floats(0, 1, exclude_max=True), st.integers(0, 7))
def test_a_bit_flipped_anywhere(compression: Compression | None, where: float, bit: int) -> None:
    """It is refused, or (in a gzip header's unused fields) changes nothing."""
    data = bytearray(compress(ARCHIVE, compression))
    data[int(where * len(data))] ^= 1 << bit
    with tempfile.TemporaryDirectory() as scratch:
        destination = Path(scratch) / "t"
        try:
            unpacked(destination, stream(bytes(data), compression))
        except LayerError:
            assert not destination.exists()
        else:
            assert compression == "gzip"
            assert where * len(data) < 10
            assert len(archives.contents(destination)) == 2


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 511), st.binary(min_size=1, max_size=12))
def test_a_header_that_says_anything_with_a_right_checksum(start: int, value: bytes) -> None:
    """Nothing but a `LayerError` comes out, or a tree that lies below the destination."""
    block = bytearray(archives.header("d/k", size=512))
    block[start : start + len(value)] = value
    archive = archives.with_checksum(block[:512]) + bytes(512) + archives.file("after") + archives.END
    with tempfile.TemporaryDirectory() as scratch:
        with contextlib.suppress(LayerError):
            unpacked(Path(scratch) / "t", archives.layer(archive), limits=Limits(bytes=100_000))
        assert [path.name for path in Path(scratch).iterdir()] in ([], ["t"])
        assert not [path for path in Path(scratch).rglob("*") if path.is_symlink()]


@pytest.mark.parametrize(
    ("compression", "garbage"),
    [
        *itertools.product(COMPRESSIONS, [b"garbage", b"PK\3\4" * 100_000]),
        # After a plain archive zeros are its padding.
        *itertools.product(COMPRESSED, [b"\0", b"\x1f\x8b!!!!!!!!!!!!", b"\x28\xb5!!!!!!!!!!!"]),
    ],
)
def test_other_bytes_after_the_stream(
    tmp_path: Path, compression: Compression | None, garbage: bytes
) -> None:
    for cut in (97, 1 << 20):
        with pytest.raises(TrailingDataError):
            unpacked(tmp_path / "t", stream(compress(ARCHIVE, compression) + garbage, compression, cut))
        assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("compression", COMPRESSED)
def test_a_second_stream_is_more_of_the_same_archive(tmp_path: Path, compression: Compression) -> None:
    data = compress(ARCHIVE, compression) + compress(joined([file("more")]), compression)
    with pytest.raises(TrailingDataError):
        unpacked(tmp_path / "t", stream(data, compression))


@pytest.mark.parametrize("compression", COMPRESSED)
@pytest.mark.parametrize("data", [b"", b"PK\3\4 not what the media type says", bytes(5000)])
def test_another_format_than_announced(tmp_path: Path, compression: Compression, data: bytes) -> None:
    with pytest.raises(LayerError) as caught:
        unpacked(tmp_path / "t", stream(data, compression))
    assert type(caught.value) in (CorruptLayerError, TruncatedLayerError)
    assert not (tmp_path / "t").exists()


def test_a_wrong_checksum_of_the_stream(tmp_path: Path) -> None:
    data = bytearray(compress(ARCHIVE, "gzip"))
    data[-8] ^= 0xFF
    with pytest.raises(CorruptLayerError, match="checksum"):
        unpacked(tmp_path / "t", stream(bytes(data), "gzip"))


def test_a_zstd_window_that_would_take_gigabytes(tmp_path: Path) -> None:
    options = {zstd.CompressionParameter.window_log: 28, zstd.CompressionParameter.content_size_flag: 0}
    compressor = zstd.ZstdCompressor(options=options)
    data = compressor.compress(ARCHIVE) + compressor.flush()
    with pytest.raises(CorruptLayerError, match="memory"):
        unpacked(tmp_path / "t", stream(data, "zstd"))


def test_a_stream_of_nothing_but_empty_frames(tmp_path: Path) -> None:
    """They cost time and give nothing."""
    empty = b"\x50\x2a\x4d\x18\0\0\0\0"
    with pytest.raises(TooManyEntriesError, match="frames"):
        unpacked(tmp_path / "t", stream(empty * 1001, "zstd", 1 << 20), limits=Limits(frames=1000))


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_the_error_of_a_source_comes_through(tmp_path: Path, compression: Compression | None) -> None:
    """The verifying stream raises at its end, when everything is written already."""

    class WrongDigestError(Exception):
        pass

    def lying() -> Iterator[bytes]:
        yield from chunks(compress(ARCHIVE, compression), 97)
        raise WrongDigestError

    with pytest.raises(WrongDigestError):
        unpacked(tmp_path / "t", LayerStream(LAYER_TYPE[compression], lying()))
    assert not (tmp_path / "t").exists()


def test_interruption_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> Iterator[bytes]:
        yield ARCHIVE[:2000]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unpacked(tmp_path / "t", LayerStream(LAYER_TYPE[None], interrupted()))
    assert not (tmp_path / "t").exists()
