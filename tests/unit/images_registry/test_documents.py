"""Manifests, indexes and configs: what is read, what is refused, and which image of an index is meant."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gkm.images import media
from gkm.images.errors import MalformedImageError, RegistryError, UnsupportedImageError
from gkm.images.media import (
    Descriptor,
    Index,
    Platform,
    decode_config,
    decode_index,
    decode_manifest,
    document_type,
)
from gkm.images.selection import host_architecture, select_image
from support.images import describe, small_image

IMAGE = small_image(b"layer", labels={"a": "b"})


def manifest(**changes):
    document = {**json.loads(IMAGE.manifest), **changes}
    return json.dumps({k: v for k, v in document.items() if v is not None}).encode()


def entry(name, media_type=media.OCI_MANIFEST, platform=None, **annotations):
    described = describe(name.encode(), media_type)
    return Descriptor(
        media_type=media_type,
        digest=described.digest,
        size=described.size,
        platform=Platform(os=platform[0], architecture=platform[1]) if platform else None,
        annotations=annotations,
    )


def test_a_manifest_is_read_and_written_alike():
    assert media.encode(decode_manifest(IMAGE.manifest)) == IMAGE.manifest


def test_dockers_documents_have_the_same_shape():
    data = manifest(mediaType=media.DOCKER_MANIFEST)
    assert decode_manifest(data).layers == IMAGE.layers
    assert document_type(data) == media.DOCKER_MANIFEST


def test_a_manifest_without_a_type_of_its_own_has_the_announced_one():
    data = manifest(mediaType=None)
    assert document_type(data) == media.OCI_MANIFEST
    assert document_type(data, f"{media.DOCKER_MANIFEST}; charset=utf-8") == media.DOCKER_MANIFEST
    assert document_type(data, "application/json") == media.OCI_MANIFEST
    assert document_type(b'{"schemaVersion": 2, "manifests": []}') == media.OCI_INDEX


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (b"", MalformedImageError, "cannot be read"),
        (b"[]", MalformedImageError, "cannot be read"),
        (b"\xff{}", MalformedImageError, "cannot be read"),
        (b" " * (media.MAX_DOCUMENT_BYTES + 1), MalformedImageError, "not read"),
        (manifest(config=None), MalformedImageError, "config"),
        (manifest(layers=None), MalformedImageError, "layers"),
        (manifest(schemaVersion=None), MalformedImageError, "schemaVersion"),
        (manifest(schemaVersion=3), MalformedImageError, "schemaVersion"),
        (
            manifest(layers=[{"mediaType": "x", "digest": "sha512:" + "0" * 128, "size": 1}]),
            MalformedImageError,
            "digest",
        ),
        (
            manifest(layers=[{"mediaType": "x", "digest": describe(b"").digest + "\n", "size": 1}]),
            MalformedImageError,
            "digest",
        ),
        (
            manifest(layers=[{"mediaType": "x", "digest": describe(b"").digest, "size": -1}]),
            MalformedImageError,
            "size",
        ),
        (
            manifest(layers=[{"mediaType": "x", "digest": "sha256:../../../etc/passwd", "size": 1}]),
            MalformedImageError,
            "digest",
        ),
        (manifest(manifests=[]), MalformedImageError, "at once"),
        (manifest(mediaType=media.OCI_INDEX), UnsupportedImageError, "expected an image manifest"),
        (manifest(mediaType="application/vnd.cncf.helm"), UnsupportedImageError, "neither"),
        (b'{"schemaVersion": 1, "fsLayers": []}', UnsupportedImageError, "schema 1"),
    ],
)
def test_what_is_no_manifest_is_refused_by_name(data, error, words):
    with pytest.raises(error, match=words):
        decode_manifest(data)


def test_a_manifest_that_is_not_what_was_announced_is_refused():
    with pytest.raises(MalformedImageError, match="announced"):
        document_type(IMAGE.manifest, media.DOCKER_MANIFEST)


_VALUES = st.none() | st.integers() | st.text() | st.lists(st.none() | st.just({})) | st.just({"digest": 1})
_KEYS = ["schemaVersion", "mediaType", "manifests", "config", "layers", "rootfs", "annotations"]


@settings(deadline=None)
@given(st.binary() | st.dictionaries(st.sampled_from(_KEYS), _VALUES).map(lambda d: json.dumps(d).encode()))
def test_any_bytes_are_read_or_refused(data):
    for decode in (decode_manifest, decode_index, decode_config):
        try:
            decode(data)
        except RegistryError:
            continue


def test_a_config_may_have_no_labels():
    assert decode_config(b'{"config": {"Labels": null}}').labels == {}
    assert decode_config(b'{"config": null}').labels == {}
    assert decode_config(b"{}").labels == {}
    assert decode_config(b'{"config": {"Labels": {"a": "b"}, "Env": ["X=1"]}}').labels == {"a": "b"}


def test_the_only_image_of_an_index_fits_whatever_its_platform():
    attestation = entry(
        "b", platform=("unknown", "unknown"), **{"vnd.docker.reference.type": "attestation-manifest"}
    )
    only = entry("a", platform=("linux", "s390x"))
    assert select_image(Index(manifests=(attestation, only), schema_version=2), "amd64") == only


def test_of_several_images_the_hosts_is_taken():
    arm, amd = entry("a", platform=("linux", "arm64")), entry("b", platform=("linux", "amd64"))
    windows = entry("c", platform=("windows", "amd64"))
    index = Index(manifests=(windows, arm, amd), schema_version=2)
    assert select_image(index, "amd64") == amd
    assert select_image(index, "arm64") == arm
    with pytest.raises(UnsupportedImageError, match="windows/amd64, linux/arm64, linux/amd64"):
        select_image(index, "riscv64")


def test_an_index_without_images_is_refused():
    with pytest.raises(UnsupportedImageError, match="no image at all"):
        select_image(Index(manifests=(entry("x", "application/x"),), schema_version=2), "amd64")


def test_architectures_have_the_specs_names():
    assert host_architecture("x86_64") == "amd64"
    assert host_architecture("aarch64") == "arm64"
    assert host_architecture("riscv64") == "riscv64"
