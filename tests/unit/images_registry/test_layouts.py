"""Layout directories: tags that move, several writers at once, and directories that are something else."""

import asyncio
import json
import os
import shutil

import pytest

from gkm.images import media
from gkm.images.errors import (
    AmbiguousReferenceError,
    DigestMismatchError,
    MalformedImageError,
    NotALayoutError,
    NotFoundError,
    RefusedError,
    SizeMismatchError,
    UnavailableError,
    UnsupportedImageError,
)
from gkm.images.layout import LayoutRepository
from gkm.images.reference import LayoutReference
from support.images import describe, read, small_image, store

ONE, TWO = small_image(b"one"), small_image(b"two")


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "deep" / "layout"


@pytest.fixture
def layout(directory):
    return LayoutRepository(directory)


def named(directory, tag=None, digest=None):
    return LayoutReference(directory, tag, digest)


def index(directory):
    return json.loads((directory / "index.json").read_bytes())


async def test_a_tag_moves_and_leaves_nothing_ambiguous(layout, directory, tmp_path):
    await store(layout, ONE, tmp_path, "v1")
    await store(layout, TWO, tmp_path, "v1")
    assert (await layout.resolve(named(directory, "v1"))).digest == TWO.digest
    assert (await layout.resolve(named(directory))).digest == TWO.digest
    assert (await layout.resolve(named(directory, digest=ONE.digest))).digest == ONE.digest


async def test_one_image_may_have_many_tags(layout, directory, tmp_path):
    for tag in ("v1", "v2", None, "v1"):
        await store(layout, ONE, tmp_path, tag)
    assert len(index(directory)["manifests"]) == 2
    for tag in ("v1", "v2", None):
        assert await layout.resolve(named(directory, tag)) == ONE.descriptor


async def test_of_several_images_one_must_be_named(layout, directory, tmp_path):
    await store(layout, ONE, tmp_path, "v1")
    await store(layout, TWO, tmp_path, "v2")
    with pytest.raises(AmbiguousReferenceError, match="v1, v2"):
        await layout.resolve(named(directory))
    await store(layout, TWO, tmp_path, "latest")
    assert (await layout.resolve(named(directory))).digest == TWO.digest


async def test_what_is_not_there_is_told_with_what_is(layout, directory, tmp_path):
    with pytest.raises(NotFoundError, match="no directory"):
        await layout.resolve(named(directory))
    await store(layout, ONE, tmp_path, "v1")
    with pytest.raises(NotFoundError, match=r"'v2'.*its tags are v1"):
        await layout.resolve(named(directory, "v2"))
    with pytest.raises(NotFoundError):
        await layout.resolve(named(directory, digest=TWO.digest))
    with pytest.raises(NotFoundError, match="incomplete"):
        await read(layout, describe(b"absent"))


async def test_reading_leaves_an_absent_directory_absent(layout, directory):
    assert not await layout.has_blob(describe(b"x"))
    with pytest.raises(NotFoundError):
        await layout.resolve(named(directory, "v1"))
    assert not directory.exists()


async def test_an_empty_layout_has_no_image(layout, directory, tmp_path):
    await store(layout, ONE, tmp_path, None)
    (directory / "index.json").write_text('{"schemaVersion": 2, "manifests": []}')
    with pytest.raises(NotFoundError, match="its tags are none"):
        await layout.resolve(named(directory))


async def test_writers_take_turns(directory, tmp_path):
    images = [small_image(bytes([n])) for n in range(12)]

    async def write(number):
        own = tmp_path / str(number)
        own.mkdir()
        await store(LayoutRepository(directory), images[number], own, f"v{number}")

    await asyncio.gather(*map(write, range(12)))
    layout = LayoutRepository(directory)
    for number, image in enumerate(images):
        assert (await layout.resolve(named(directory, f"v{number}"))).digest == image.digest
    assert not list((directory / "blobs/sha256").glob(".*"))


async def test_what_other_tools_wrote_stays(layout, directory, tmp_path):
    await store(layout, ONE, tmp_path, "v1")
    document = index(directory)
    document["annotations"] = {"made": "by another"}
    document["manifests"][0]["urls"] = ["https://example.com"]
    (directory / "index.json").write_text(json.dumps(document))
    await store(layout, TWO, tmp_path, "v2")
    assert index(directory)["annotations"] == {"made": "by another"}
    assert index(directory)["manifests"][0]["urls"] == ["https://example.com"]


async def test_an_index_inside_leads_to_its_image(layout, directory, tmp_path):
    await store(layout, ONE, tmp_path, None)
    inner = media.Index(manifests=(ONE.descriptor,), schema_version=2, media_type=media.OCI_INDEX)
    await layout.write_manifest(media.encode(inner), media.OCI_INDEX, "many")
    assert await layout.resolve(named(directory, "many")) == ONE.descriptor


async def test_damage_is_noticed(layout, directory, tmp_path):
    await store(layout, ONE, tmp_path, "v1")
    file = directory / "blobs/sha256" / ONE.layers[0].digest.removeprefix("sha256:")
    file.write_bytes(b"eno")
    with pytest.raises(DigestMismatchError):
        await read(layout, ONE.layers[0])
    file.write_bytes(b"on")
    with pytest.raises(SizeMismatchError):
        await read(layout, ONE.layers[0])
    assert not await layout.has_blob(ONE.layers[0])
    manifest = directory / "blobs/sha256" / ONE.digest.removeprefix("sha256:")
    manifest.write_bytes(ONE.manifest.replace(b"amd64", b"arm64") + b" ")
    with pytest.raises(SizeMismatchError):
        await layout.read_manifest(ONE.descriptor)


async def test_a_pipe_in_place_of_a_blob_does_not_hang(layout, directory, tmp_path):
    await store(layout, ONE, tmp_path, "v1")
    file = directory / "blobs/sha256" / ONE.layers[0].digest.removeprefix("sha256:")
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(UnavailableError, match="not a regular file"):
        await read(layout, ONE.layers[0])


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        ("oci-layout", b"{", NotALayoutError),
        ("oci-layout", b'{"imageLayoutVersion": "2.0.0"}', NotALayoutError),
        ("index.json", b"{", MalformedImageError),
        ("index.json", b'{"schemaVersion": 2, "config": {}, "layers": []}', UnsupportedImageError),
        ("index.json", b" " * (media.MAX_DOCUMENT_BYTES + 2), MalformedImageError),
    ],
)
async def test_a_broken_layout_is_refused_and_left_as_it_is(layout, directory, tmp_path, name, data, error):
    await store(layout, ONE, tmp_path, "v1")
    (directory / name).write_bytes(data)
    with pytest.raises(error):
        await layout.resolve(named(directory, "v1"))
    with pytest.raises(error):
        await layout.write_manifest(TWO.manifest, media.OCI_MANIFEST, "v2")
    assert (directory / name).read_bytes() == data


async def test_a_directory_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "precious").write_text("data")
    layout = LayoutRepository(tmp_path)
    with pytest.raises(NotALayoutError, match="name another directory"):
        await layout.write_blob(describe(b"x"), tmp_path / "precious")
    assert list(tmp_path.iterdir()) == [tmp_path / "precious"]


async def test_a_layout_without_an_index_is_made_whole_by_writing(layout, directory, tmp_path):
    await store(layout, ONE, tmp_path, "v1")
    (directory / "index.json").unlink()
    shutil.rmtree(directory / "blobs")
    with pytest.raises(NotFoundError, match="incomplete"):
        await layout.resolve(named(directory, "v1"))
    await store(layout, TWO, tmp_path, "v2")
    assert (await layout.resolve(named(directory, "v2"))).digest == TWO.digest


async def test_where_a_file_stands_no_layout_can_be(tmp_path):
    (tmp_path / "file").write_text("")
    layout = LayoutRepository(tmp_path / "file")
    with pytest.raises(RefusedError, match="cannot write"):
        await layout.write_manifest(ONE.manifest, media.OCI_MANIFEST, "v1")
    with pytest.raises(NotALayoutError):
        await layout.resolve(named(tmp_path / "file"))


async def test_a_write_that_is_cancelled_leaves_nothing(layout, directory):
    started = asyncio.Event()

    class Slow:
        async def __aenter__(self):
            return self._chunks()

        async def __aexit__(self, *_):
            return None

        async def _chunks(self):
            yield b"on"
            started.set()
            await asyncio.sleep(3600)

    task = asyncio.create_task(layout.write_blob(describe(b"one"), Slow))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list((directory / "blobs/sha256").iterdir()) == []
