"""Writing to a registry that cuts, forgets, lies or refuses."""

import os

import pytest

from gkm.images.copy import copy_image
from gkm.images.errors import DigestMismatchError, ProtocolError, RefusedError, UnavailableError
from gkm.images.open import open_repository
from gkm.images.reference import LayoutReference
from support.fault_server import answer, hang_up
from support.images import describe, small_image, store

DATA = os.urandom(300_000)


@pytest.fixture
def source(tmp_path):
    (tmp_path / "blob").write_bytes(DATA)
    return tmp_path / "blob"


async def test_a_cut_upload_starts_over(faulty, opened, source):
    faulty.fail("PUT", "/blobs/", hang_up(), answer(503))
    async with opened() as repository:
        await repository.write_blob(describe(DATA), source)
    assert faulty.blobs[describe(DATA).digest] == DATA
    assert faulty.count("PUT", "/blobs/") == 3


async def test_an_upload_that_is_always_cut_is_given_up(faulty, opened, source):
    faulty.always("PUT", "/blobs/", lambda _: hang_up())
    async with opened() as repository:
        with pytest.raises(UnavailableError):
            await repository.write_blob(describe(DATA), source)


async def test_what_is_there_is_not_sent_again(faulty, opened, source):
    faulty.blobs[describe(DATA).digest] = DATA
    async with opened() as repository:
        await repository.write_blob(describe(DATA), source)
    assert [r.method for r in faulty.requests if "/blobs/" in r.path] == ["HEAD"]


async def test_a_full_registry_refuses_with_its_own_words(faulty, opened, source):
    told = b'{"errors": [{"code": "DENIED", "message": "quota of team reached"}]}'
    faulty.always("POST", "/blobs/uploads/", lambda _: answer(413, told))
    async with opened() as repository:
        with pytest.raises(RefusedError, match="quota of team reached"):
            await repository.write_blob(describe(DATA), source)


async def test_a_missing_upload_place_is_an_error(faulty, opened, source):
    faulty.always("POST", "/blobs/uploads/", lambda _: answer(202))
    async with opened() as repository:
        with pytest.raises(ProtocolError, match="''"):
            await repository.write_blob(describe(DATA), source)


async def test_a_registry_that_stores_another_manifest_is_caught(faulty, opened):
    other = {"docker-content-digest": describe(b"other").digest}
    faulty.always("PUT", "/manifests/", lambda _: answer(201, headers=other))
    async with opened() as repository:
        with pytest.raises(DigestMismatchError):
            await repository.write_manifest(small_image(b"x").manifest, "application/x", "v1")


async def test_a_file_that_is_not_there_is_an_error_of_ours(faulty, opened, tmp_path):
    async with opened() as repository:
        with pytest.raises(RefusedError, match="No such file"):
            await repository.write_blob(describe(b"x"), tmp_path / "absent")


async def test_the_tag_is_not_moved_when_a_blob_fails(faulty, opened, reference, tmp_path):
    image, local = small_image(DATA, b"second"), LayoutReference(tmp_path / "layout")
    faulty.always("PUT", "/blobs/", lambda _: answer(400))
    async with open_repository(local) as directory, opened() as repository:
        await store(directory, image, tmp_path, "v1")
        with pytest.raises(RefusedError):
            await copy_image(directory, local, repository, reference)
    assert not faulty.manifests


async def test_a_copy_that_fails_leaves_no_part_in_a_layout(faulty, opened, reference, tmp_path):
    image, local = small_image(DATA, os.urandom(50_000)), LayoutReference(tmp_path / "layout")
    faulty.add(image)
    faulty.blobs[image.layers[0].digest] = bytes(len(DATA))
    async with open_repository(local) as directory, opened() as repository:
        with pytest.raises(DigestMismatchError):
            await copy_image(repository, reference, directory, local)
    names = {path.name for path in (tmp_path / "layout").rglob("*") if path.is_file()}
    assert names <= {"oci-layout", "index.json", *(d.removeprefix("sha256:") for d in image.blobs)}
    assert image.layers[0].digest.removeprefix("sha256:") not in names
    assert b'"manifests":[]' in (tmp_path / "layout/index.json").read_bytes()
