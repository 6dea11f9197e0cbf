"""Archives and streams that other tools write, and that are read as they mean."""

import gzip
import subprocess
import tarfile
from pathlib import Path

import pytest

from gkm.images.unpack import LayerStream
from gkm.images.unpack_errors import UnsupportedLayerError
from support import archives, parts
from support.archives import END, compress, directory, file, joined, layer, pax, tree_archive, unpacked, zstd

FILES = {
    "short": b"1",
    "d/" + "long" * 30 + "/" + "name" * 30: b"2" * 1000,
    "ünïcode/" + "ß" * 60: b"3",
    "d/empty": b"",
}
SKIPPABLE = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"


@pytest.mark.parametrize("dialect", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_python_archives(tmp_path: Path, dialect: int) -> None:
    unpacked(tmp_path / "t", layer(tree_archive(FILES, dialect)))
    assert archives.contents(tmp_path / "t") == FILES


def test_ustar_prefix(tmp_path: Path) -> None:
    files = {"d" * 90 + "/" + "f" * 90: b"x"}
    unpacked(tmp_path / "t", layer(tree_archive(files, tarfile.USTAR_FORMAT)))
    assert archives.contents(tmp_path / "t") == files


@pytest.mark.parametrize("dialect", ["gnu", "oldgnu", "pax", "posix", "ustar"])
def test_gnu_tar_archives(tmp_path: Path, dialect: str) -> None:
    """With ``./`` before every name, times, owners, and padding to 20 blocks."""
    tar = parts.need_program("tar", "tar")
    files = {"d/" + "long" * 12 + "/" + "name" * 20: b"2" * 1000, "short": b"1"}
    root = archives.write_tree(tmp_path / "root", files)
    command = [tar, f"--format={dialect}", "-C", root, "-cf", "-", "."]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    unpacked(tmp_path / "t", layer(archive))
    assert archives.contents(tmp_path / "t") == files


def test_extended_attributes_and_global_comments_are_passed_over(tmp_path: Path) -> None:
    archive = joined(
        [
            pax({"comment": "by git archive"}, kind=b"g"),
            pax({"SCHILY.xattr.security.capability": b"\1\0\0\2\n", "mtime": "1.5", "path": "k"}),
            file("placeholder"),
        ]
    )
    unpacked(tmp_path / "t", layer(archive))
    assert archives.contents(tmp_path / "t") == {"k": b"content"}
    assert not (tmp_path / "t/k").stat().st_mode & 0o111


def test_a_directory_named_twice(tmp_path: Path) -> None:
    archive = joined([directory("d"), file("d/a"), directory("d"), directory("."), file("d/b")])
    unpacked(tmp_path / "t", layer(archive))
    assert sorted(archives.contents(tmp_path / "t")) == ["d/a", "d/b"]


def test_sizes_in_base_256(tmp_path: Path) -> None:
    block = bytearray(file("k")[:512])
    block[124:136] = b"\x80" + bytes(10) + b"\x07"
    unpacked(tmp_path / "t", layer(archives.with_checksum(block) + archives.padded(b"content") + END))
    assert archives.contents(tmp_path / "t") == {"k": b"content"}


@pytest.mark.parametrize("cut", [1, 7, 65536])
@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_streams_of_several_frames(tmp_path: Path, kind: str, cut: int) -> None:
    archive = tree_archive(FILES)
    pieces = archives.chunks(archive, 700)
    if kind == "gzip":
        stream, media_type = b"".join(gzip.compress(piece) for piece in pieces), archives.LAYER_TYPE["gzip"]
    else:
        stream = SKIPPABLE + b"".join(zstd.compress(piece) + SKIPPABLE for piece in pieces)
        media_type = archives.LAYER_TYPE["zstd"]
    unpacked(tmp_path / "t", LayerStream(media_type, archives.chunks(stream, cut), archives.digest(archive)))
    assert archives.contents(tmp_path / "t") == FILES


def test_zstd_with_a_window_of_128_mib(tmp_path: Path) -> None:
    options = {zstd.CompressionParameter.window_log: 27, zstd.CompressionParameter.content_size_flag: 0}
    compressor = zstd.ZstdCompressor(options=options)
    stream = compressor.compress(tree_archive(FILES)) + compressor.flush()
    unpacked(tmp_path / "t", LayerStream(archives.LAYER_TYPE["zstd"], [stream]))
    assert archives.contents(tmp_path / "t") == FILES


@pytest.mark.parametrize(
    ("media_type", "compression"),
    [
        ("application/vnd.oci.image.layer.v1.tar", None),
        ("application/vnd.oci.image.layer.v1.tar+gzip", "gzip"),
        ("application/vnd.oci.image.layer.v1.tar+zstd", "zstd"),
        ("application/vnd.docker.image.rootfs.diff.tar", None),
        ("application/vnd.docker.image.rootfs.diff.tar.gzip", "gzip"),
        ("application/vnd.docker.image.rootfs.diff.tar.zstd", "zstd"),
        ("application/cache.triton.content.layer.v1+triton", "gzip"),
        ("application/cache.vllm.content.layer.v1+vllm", "gzip"),
    ],
)
def test_media_types(tmp_path: Path, media_type: str, compression: str | None) -> None:
    stream = compress(tree_archive(FILES), compression)  # type: ignore[arg-type]  # parametrized text
    unpacked(tmp_path / "t", LayerStream(media_type, [stream]))
    assert archives.contents(tmp_path / "t") == FILES


@pytest.mark.parametrize(
    "media_type",
    [
        "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
        "application/vnd.oci.empty.v1+json",
        "application/cache.triton.content.layer.v1+vllm",
        "application/octet-stream",
        "",
    ],
)
def test_other_media_types_are_refused(tmp_path: Path, media_type: str) -> None:
    with pytest.raises(UnsupportedLayerError):
        unpacked(tmp_path / "t", LayerStream(media_type, [tree_archive(FILES)]))
    assert not (tmp_path / "t").exists()
