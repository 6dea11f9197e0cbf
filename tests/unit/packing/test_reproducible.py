"""The same tree packed again gives the same digest, whatever else differs; another tree gives another."""

import os
import shutil
from pathlib import Path

import pytest

from gkm.images import media
from gkm.images.filelist import LIST_LABEL
from gkm.images.limits import Compression
from gkm.images.pack import PackedImage, pack
from support import archives

TREE = {
    "HASH1/__grp__add.json": b'{"child_paths": {}}',
    "HASH1/add.cubin": bytes(range(256)) * 40,
    "HASH2/sub.cubin": bytes(range(256)) * 40,
    "HASH2/sub.ptx": b".version 8.0",
}
COMPRESSIONS: list[Compression] = ["zstd", "gzip"]


def packed(root: Path, into: Path, compression: Compression = "zstd", **labels: str) -> PackedImage:
    into.mkdir(exist_ok=True)
    files = archives.image_files(root, "io.triton.cache")
    return pack(files, labels=labels, title="a cache", compression=compression, into=into)


@pytest.fixture
def tree(tmp_path: Path, umask_022: None) -> Path:
    return archives.write_tree(tmp_path / "tree", TREE)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_times_umask_order_and_places_do_not_matter(
    tree: Path, tmp_path: Path, compression: Compression
) -> None:
    first = packed(tree, tmp_path / "a", compression)
    os.umask(0o077)
    again = archives.write_tree(tmp_path / "elsewhere" / "deeper", dict(reversed(TREE.items())))
    for path in again.rglob("*"):
        os.utime(path, (1_000_000, 2_000_000))
    second = packed(again, tmp_path / "b", compression)

    assert (again / "HASH1/add.cubin").stat().st_mode != (tree / "HASH1/add.cubin").stat().st_mode
    assert first.digest == second.digest
    assert [descriptor for descriptor, _ in first.blobs] == [descriptor for descriptor, _ in second.blobs]


@pytest.mark.root
def test_owners_do_not_matter(tree: Path, tmp_path: Path) -> None:
    first = packed(tree, tmp_path / "a")
    for path in tree.rglob("*"):
        shutil.chown(path, 12345, 54321)
    assert packed(tree, tmp_path / "b").digest == first.digest


def test_one_byte_changed_is_another_digest(tree: Path, tmp_path: Path) -> None:
    first = packed(tree, tmp_path / "a")
    (tree / "HASH2/sub.ptx").write_bytes(b".version 8.1")
    second = packed(tree, tmp_path / "b")
    assert first.digest != second.digest
    assert first.layers != second.layers


def test_executability_of_the_owner_counts(tree: Path, tmp_path: Path) -> None:
    plain = packed(tree, tmp_path / "a")
    (tree / "HASH2/sub.ptx").chmod(0o611)
    assert packed(tree, tmp_path / "b").digest == plain.digest
    (tree / "HASH2/sub.ptx").chmod(0o700)
    assert packed(tree, tmp_path / "c").digest != plain.digest


def test_labels_and_title_count(tree: Path, tmp_path: Path) -> None:
    plain, labelled = packed(tree, tmp_path / "a"), packed(tree, tmp_path / "b", key="value")
    assert plain.digest != labelled.digest
    assert plain.layers == labelled.layers


def test_compressions_carry_the_same_files_under_one_files_digest(tree: Path, tmp_path: Path) -> None:
    images = [packed(tree, tmp_path / name, name) for name in COMPRESSIONS]
    configs = [media.decode_config(image.config) for image in images]
    assert configs[0].labels[LIST_LABEL] == configs[1].labels[LIST_LABEL]
    assert configs[0].rootfs == configs[1].rootfs
    assert images[0].digest != images[1].digest


def test_the_archive_is_the_one_of_earlier_releases(tree: Path, tmp_path: Path) -> None:
    """A new digest for an old tree makes every node fetch it again: a change here needs a changelog entry."""
    archives.write_tree(tree, {"HASH3/" + "long" * 30 + ".so": b"\x7fELF", "HASH3/ünïcode": b""})
    (tree / "HASH2/sub.ptx").chmod(0o755)
    assert media.decode_config(packed(tree, tmp_path / "a").config).rootfs.diff_ids == (
        "sha256:cf53fc678e514c7665d0eb5f496b1c875740506fb054edaa07ff3ff4debe0d78",
    )


def test_the_host_packing_makes_no_difference_to_the_architecture(tmp_path: Path) -> None:
    """An image of GPU code alone says amd64 everywhere; one with ARM host code says arm64."""
    cubin = b"\x7fELF\x02\x01\x01\x33\x07" + bytes(7) + b"\x02\x00\xbe\x00" + bytes(100)
    shared_object = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\xb7\x00" + bytes(100)
    for files, architecture in (
        ({"io.triton.cache/k.cubin": cubin}, "amd64"),
        ({"io.triton.cache/k.cubin": cubin, "io.triton.cache/l.so": shared_object}, "arm64"),
    ):
        image = pack(files, labels={}, title=None, into=tmp_path)
        config = media.decode_config(image.config)
        assert (config.architecture, config.os) == (architecture, "linux")
