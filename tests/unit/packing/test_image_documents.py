"""The manifest and config of a packed image."""

from pathlib import Path

import msgspec
import pytest

from gkm.base.digests import digest_bytes, digest_file
from gkm.images import media
from gkm.images.limits import Compression
from gkm.images.pack import pack
from support import archives

FILES: dict[str, Path | bytes] = {
    "io.triton.cache/H/k.cubin": b"kernel",
    "io.triton.manifest/manifest.json": b"{}",
}


@pytest.mark.parametrize(
    ("compression", "layer_type"),
    [
        ("zstd", "application/vnd.oci.image.layer.v1.tar+zstd"),
        ("gzip", "application/vnd.oci.image.layer.v1.tar+gzip"),
    ],
)
def test_documents_name_the_blobs_and_each_other(
    tmp_path: Path, compression: Compression, layer_type: str
) -> None:
    image = pack(FILES, labels={"key": "value"}, title="a cache", compression=compression, into=tmp_path)

    manifest = media.decode_manifest(image.manifest)
    assert manifest.schema_version == 2
    assert manifest.media_type == "application/vnd.oci.image.manifest.v1+json"
    assert manifest.annotations == {"org.opencontainers.image.title": "a cache"}
    assert manifest.layers == image.layers
    assert manifest.layers[0].media_type == layer_type
    assert manifest.config.digest == digest_bytes(image.config)
    assert image.digest == digest_bytes(image.manifest)

    config = media.decode_config(image.config)
    assert config.labels["key"] == "value"
    assert config.labels["org.opencontainers.image.title"] == "a cache"
    assert "created" not in msgspec.json.decode(image.config)

    assert [descriptor for descriptor, _ in image.blobs] == [*manifest.layers, manifest.config]
    for descriptor, path in image.blobs:
        assert (digest_file(path), path.stat().st_size) == (descriptor.digest, descriptor.size)
    assert image.size == len(image.manifest) + sum(path.stat().st_size for _, path in image.blobs)
    assert (image.files, image.files_bytes) == (2, 8)


def test_the_diff_id_is_that_of_the_archive(tmp_path: Path) -> None:
    image = pack(FILES, labels={}, title=None, into=tmp_path)
    result = archives.unpacked(tmp_path / "tree", *archives.packed_layers(image))
    assert "io.triton.cache/H/k.cubin" in {member.path for member in result.members}


def test_no_title_is_no_annotation(tmp_path: Path) -> None:
    image = pack(FILES, labels={}, title=None, into=tmp_path)
    assert media.decode_manifest(image.manifest).annotations == {}
    assert media.TITLE not in media.decode_config(image.config).labels


def test_only_the_blobs_are_left_in_the_directory(tmp_path: Path) -> None:
    image = pack(FILES, labels={}, title=None, into=tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(path for _, path in image.blobs)
