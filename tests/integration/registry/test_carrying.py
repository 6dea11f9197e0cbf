"""Images through a real registry and through layout directories: the same bytes everywhere."""

import os
import subprocess
import tarfile

import pytest

from gkm.base.errors import UsageError
from gkm.images.copy import copy_image
from gkm.images.errors import DigestMismatchError, NotFoundError, SizeMismatchError
from gkm.images.image import fetch_image
from gkm.images.media import decode_manifest
from gkm.images.open import open_repository
from gkm.images.reference import LayoutReference, RegistryReference, parse_reference
from support import parts
from support.images import describe, read, small_image, store
from support.samples import extract


class Watcher:
    """A progress display that counts."""

    def __init__(self) -> None:
        self.totals: dict[str, int] = {}
        self.seen: dict[str, int] = {}
        self.finished: set[str] = set()

    def start(self, name, total):
        self.totals[name], self.seen[name] = total, 0

    def advance(self, name, n):
        self.seen[name] += n

    def finish(self, name):
        self.finished.add(name)


async def test_what_is_written_is_read_back(registry, fresh, tmp_path):
    image = small_image(b"one" * 1000, os.urandom(3 << 20), labels={"a": "b"})
    reference = fresh(registry)
    async with open_repository(reference) as repository:
        written = await store(repository, image, tmp_path, "v1")
        found = await fetch_image(repository, reference)
        assert found.descriptor == written == image.descriptor
        assert found.labels == {"a": "b"}
        for layer in found.manifest.layers:
            assert await read(repository, layer) == image.blobs[layer.digest]
            assert await repository.has_blob(layer)
        assert not await repository.has_blob(describe(b"something else"))


async def test_an_image_is_found_by_digest_too(registry, fresh, tmp_path):
    image, reference = small_image(b"x"), fresh(registry)
    async with open_repository(reference) as repository:
        await store(repository, image, tmp_path, None)
        by_digest = RegistryReference(reference.host, reference.repository, None, image.digest)
        assert (await repository.resolve(by_digest)).digest == image.digest
        with pytest.raises(NotFoundError, match="v1"):
            await repository.resolve(reference)


async def test_an_empty_blob_travels(registry, fresh, tmp_path):
    reference = fresh(registry)
    async with open_repository(reference) as repository:
        (tmp_path / "empty").write_bytes(b"")
        await repository.write_blob(describe(b""), tmp_path / "empty")
        assert await read(repository, describe(b"")) == b""


async def test_a_layout_and_a_registry_carry_the_same_image(registry, fresh, tmp_path):
    image = small_image(os.urandom(100_000), b"second")
    first, second = LayoutReference(tmp_path / "first", "v1"), LayoutReference(tmp_path / "second")
    remote = fresh(registry)
    watcher = Watcher()
    async with (
        open_repository(first) as a,
        open_repository(remote) as b,
        open_repository(second) as c,
    ):
        await store(a, image, tmp_path, "v1")
        there = await copy_image(a, first, b, remote, watcher)
        back = await copy_image(b, remote, c, second)
        again = await copy_image(b, remote, c, second)
        assert await c.read_manifest(await c.resolve(second)) == image.manifest
    assert there.digest == back.digest == image.digest
    assert there.bytes == sum(map(len, image.blobs.values())) + len(image.manifest)
    assert (there.blobs_skipped, again.blobs_skipped) == (0, len(image.blobs))
    assert watcher.seen == watcher.totals == {d: len(data) for d, data in image.blobs.items()}
    assert watcher.finished == set(image.blobs)
    for digest, data in image.blobs.items():
        assert (tmp_path / "second/blobs/sha256" / digest.removeprefix("sha256:")).read_bytes() == data


async def test_a_neighbour_repository_lends_its_blobs(registry, fresh, tmp_path):
    image = small_image(os.urandom(100_000))
    source, destination = fresh(registry), fresh(registry)
    async with open_repository(source) as a, open_repository(destination) as b:
        await store(a, image, tmp_path, "v1")
        result = await copy_image(a, source, b, destination)
        assert result.blobs_skipped == len(image.blobs)
        assert await read(b, image.layers[0]) == image.blobs[image.layers[0].digest]
        missing = describe(b"the neighbour has it not")
        assert not await b.mount_blob(missing, a)


async def test_a_copy_never_changes_the_digest_that_was_asked_for(tmp_path):
    image = small_image(b"x")
    source = LayoutReference(tmp_path / "a", "v1")
    other = LayoutReference(tmp_path / "b", None, describe(b"another").digest)
    async with open_repository(source) as a, open_repository(other) as b:
        await store(a, image, tmp_path, "v1")
        with pytest.raises(UsageError, match="never changes the digest"):
            await copy_image(a, source, b, other)
    assert not (tmp_path / "b").exists()


async def test_damage_in_the_registry_is_noticed(registry, fresh, tmp_path):
    layer = os.urandom(200_000)
    image, reference = small_image(layer), fresh(registry)
    blob = describe(layer)
    async with open_repository(reference) as repository:
        await store(repository, image, tmp_path, "v1")
        stored = registry.blob_file(blob.digest)
        stored.write_bytes(layer[:-1] + bytes([layer[-1] ^ 1]))
        with pytest.raises(DigestMismatchError, match="changed or damaged"):
            await read(repository, blob)
        stored.write_bytes(layer[:-1])
        with pytest.raises(SizeMismatchError, match="push it again"):
            await read(repository, blob)
        stored.write_bytes(layer + b"!")
        with pytest.raises(SizeMismatchError, match="push it again"):
            await read(repository, blob)


async def test_a_source_that_is_not_what_it_says_is_not_stored(registry, fresh, tmp_path):
    reference = fresh(registry)
    (tmp_path / "file").write_bytes(b"these bytes")
    async with open_repository(reference) as repository:
        wrong = describe(b"those bytes")
        with pytest.raises(DigestMismatchError):
            await repository.write_blob(wrong, tmp_path / "file")
        with pytest.raises(SizeMismatchError):
            await repository.write_blob(describe(b"longer than these"), tmp_path / "file")
        assert not await repository.has_blob(wrong)


async def test_skopeo_reads_what_we_write_and_we_read_what_it_writes(registry, fresh, tmp_path):
    skopeo = parts.need_program("skopeo", "skopeo")
    image, ours, theirs = small_image(os.urandom(10_000)), fresh(registry), fresh(registry)
    async with open_repository(ours) as repository:
        await store(repository, image, tmp_path, "v1")
    insecure = ["--src-tls-verify=false", "--dest-tls-verify=false"]
    copying = [skopeo, "--insecure-policy", "copy", "--preserve-digests", *insecure]
    subprocess.run([*copying, f"docker://{ours}", f"docker://{theirs}"], check=True, capture_output=True)
    subprocess.run(
        [*copying, f"docker://{ours}", f"oci:{tmp_path}/skopeo:v2"], check=True, capture_output=True
    )
    for reference in (
        theirs,
        parse_reference(f"oci:{tmp_path}/skopeo"),
        parse_reference(f"oci:{tmp_path}/skopeo:v2"),
    ):
        async with open_repository(reference) as repository:
            found = await fetch_image(repository, reference)
            assert found.descriptor.digest == image.digest
            assert await read(repository, found.manifest.layers[0]) == image.blobs[image.layers[0].digest]
    async with open_repository(LayoutReference(tmp_path / "skopeo")) as repository:
        await repository.write_manifest(image.manifest, image.descriptor.media_type, "v3")
    for tag in ("v2", "v3"):
        subprocess.run([skopeo, "inspect", f"oci:{tmp_path}/skopeo:{tag}"], check=True, capture_output=True)


@pytest.mark.parametrize("name", ["vector-add-cache", "vllm-cache"])
async def test_an_image_of_upstream_goes_to_a_registry_and_back(registry, fresh, tmp_path, sample_dir, name):
    with tarfile.open(sample_dir / "mcv-images" / f"{name}.oci.tar") as archive:
        extract(archive, tmp_path / "theirs")
    local, remote, back = (
        LayoutReference(tmp_path / "theirs"),
        fresh(registry),
        LayoutReference(tmp_path / "back"),
    )
    async with open_repository(local) as a, open_repository(remote) as b, open_repository(back) as c:
        await copy_image(a, local, b, remote)
        result = await copy_image(b, remote, c, back)
        image = await fetch_image(c, back)
        original = decode_manifest(await a.read_manifest(await a.resolve(local)))
        assert image.descriptor.digest == result.digest
        assert image.manifest == original
        assert any(label.startswith("cache.") for label in image.labels)
