"""From a repository into a directory, with places that cut, stall and lie, and callers that give up."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gkm.images import media
from gkm.images.bridge import unpack_image
from gkm.images.errors import DigestMismatchError, SizeMismatchError, UnavailableError
from gkm.images.image import Image, fetch_image
from gkm.images.layout import LayoutRepository
from gkm.images.limits import Limits
from gkm.images.media import Descriptor
from gkm.images.pack import pack
from gkm.images.reference import parse_reference
from gkm.images.unpack_errors import DestinationNotEmptyError, LayerError, TooManyBytesError
from support import archives

FILES = {f"c/{number:03}": bytes([number]) * 50_000 for number in range(100)}


@pytest.fixture
async def layout(tmp_path: Path) -> LayoutRepository:
    """A real layout directory with one image of FILES."""
    image = pack(FILES, labels={}, title=None, compression="gzip", into=tmp_path)
    repository = LayoutRepository(tmp_path / "layout")
    for descriptor, path in image.blobs:
        await repository.write_blob(descriptor, path)
    await repository.write_manifest(image.manifest, image.manifest_descriptor.media_type, "t")
    return repository


@pytest.fixture
async def image(layout: LayoutRepository, tmp_path: Path) -> Image:
    return await fetch_image(layout, parse_reference(f"oci:{tmp_path}/layout:t"))


def select(name: str) -> str | None:
    return name[2:] if name.startswith("c/") else None


class Seen:
    """Records what progress is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, int]] = []
        self.threads: set[int] = set()

    def _note(self, *event: str | int) -> None:
        self.threads.add(threading.get_ident())
        self.events.append(event)  # type: ignore[arg-type]  # test code

    def start(self, name: str, total: int) -> None:
        self._note("start", name, total)

    def advance(self, name: str, n: int) -> None:
        self._note("advance", name, n)

    def finish(self, name: str) -> None:
        self._note("finish", name, 0)


class Faulty(LayoutRepository):
    """A layout directory whose layers come through `spoil`."""

    def __init__(
        self, directory: Path, spoil: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]]
    ) -> None:
        super().__init__(directory)
        self._spoil = spoil
        self.closed = 0

    @asynccontextmanager
    async def open_blob(self, descriptor: Descriptor) -> AsyncIterator[AsyncIterator[bytes]]:
        async with super().open_blob(descriptor) as chunks:
            try:
                yield self._spoil(chunks)
            finally:
                self.closed += 1


async def test_an_image_of_a_layout(layout: LayoutRepository, image: Image, tmp_path: Path) -> None:
    seen = Seen()
    result = await unpack_image(layout, image, tmp_path / "tree", select=select, progress=seen)
    assert archives.contents(tmp_path / "tree") == {name[2:]: data for name, data in FILES.items()}
    assert result.files == len(FILES)

    (layer,) = image.manifest.layers
    assert seen.events[0] == ("start", layer.digest, layer.size)
    assert seen.events[-1] == ("finish", layer.digest, 0)
    assert sum(n for kind, _, n in seen.events if kind == "advance") == layer.size
    assert seen.threads == {threading.get_ident()}


async def test_limits_and_modes_are_handed_on(layout: LayoutRepository, image: Image, tmp_path: Path) -> None:
    with pytest.raises(TooManyBytesError):
        await unpack_image(layout, image, tmp_path / "tree", select=select, limits=Limits(bytes=100_000))
    assert not (tmp_path / "tree").exists()
    await unpack_image(layout, image, tmp_path / "tree", select=select, open_to_all=True)
    assert (tmp_path / "tree/000").stat().st_mode & 0o777 == 0o666


async def test_a_destination_in_use(layout: LayoutRepository, image: Image, tmp_path: Path) -> None:
    archives.write_tree(tmp_path / "tree", {"mine": b"mine"})
    with pytest.raises(DestinationNotEmptyError):
        await unpack_image(layout, image, tmp_path / "tree", select=select)
    assert archives.contents(tmp_path / "tree") == {"mine": b"mine"}


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), DigestMismatchError),
        (lambda data: data[: len(data) // 2], SizeMismatchError),
        (lambda data: data + b"more", SizeMismatchError),
    ],
    ids=["changed", "cut", "longer"],
)
async def test_a_stored_blob_that_is_not_what_its_digest_says(
    layout: LayoutRepository,
    image: Image,
    tmp_path: Path,
    spoil: Callable[[bytes], bytes],
    error: type[Exception],
) -> None:
    """The digest is what is told, also where the layer's own format sees the damage first; nothing is left."""
    blob = tmp_path / "layout/blobs" / image.manifest.layers[0].digest.replace(":", "/")
    blob.write_bytes(spoil(blob.read_bytes()))
    for _ in range(10):
        with pytest.raises(error):
            await unpack_image(layout, image, tmp_path / "tree", select=select)
        assert not (tmp_path / "tree").exists()


@pytest.mark.usefixtures("layout")
async def test_a_damaged_layer_that_never_ends_is_judged_by_its_stream(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gkm.images.bridge._CHECK_SECONDS", 0.1)

    async def stalling(_: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        yield b"no gzip" * 10_000
        await asyncio.Event().wait()

    repository = Faulty(tmp_path / "layout", stalling)
    with pytest.raises(LayerError):
        await unpack_image(repository, image, tmp_path / "tree", select=select)
    assert not (tmp_path / "tree").exists()
    assert repository.closed == 1


async def test_a_digest_that_only_the_end_disproves(
    layout: LayoutRepository, image: Image, tmp_path: Path
) -> None:
    """A field of the gzip header that changes no byte of any file."""
    blob = tmp_path / "layout/blobs" / image.manifest.layers[0].digest.replace(":", "/")
    data = bytearray(blob.read_bytes())
    data[4] ^= 1  # the time
    blob.write_bytes(data)
    with pytest.raises(DigestMismatchError):
        await unpack_image(layout, image, tmp_path / "tree", select=select)
    assert not (tmp_path / "tree").exists()


@pytest.mark.usefixtures("layout")
async def test_a_place_that_fails_midway(image: Image, tmp_path: Path) -> None:
    async def failing(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        yield (await anext(chunks))[:10_000]
        raise UnavailableError("the registry went away")

    repository = Faulty(tmp_path / "layout", failing)
    with pytest.raises(UnavailableError, match="went away"):
        await unpack_image(repository, image, tmp_path / "tree", select=select)
    assert not (tmp_path / "tree").exists()
    assert repository.closed == 1


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("cancels", [1, 3])
async def test_a_caller_that_gives_up_while_the_place_stalls(
    image: Image, tmp_path: Path, cancels: int
) -> None:
    stalled = asyncio.Event()

    async def stalling(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        yield (await anext(chunks))[:10_000]
        stalled.set()
        await asyncio.Event().wait()

    repository = Faulty(tmp_path / "layout", stalling)
    unpacking = asyncio.create_task(unpack_image(repository, image, tmp_path / "tree", select=select))
    await stalled.wait()
    for _ in range(cancels):
        unpacking.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await unpacking
    assert not (tmp_path / "tree").exists()
    assert repository.closed == 1


@pytest.mark.usefixtures("layout")
async def test_a_refused_image_ends_its_download(image: Image, tmp_path: Path) -> None:
    """An endless stream behind an archive that is refused at once."""

    async def endless(_: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        while True:
            yield b"no gzip" * 10_000

    repository = Faulty(tmp_path / "layout", endless)
    with pytest.raises(LayerError):
        await unpack_image(repository, image, tmp_path / "tree", select=select)
    assert repository.closed == 1


async def test_an_image_without_diff_ids(layout: LayoutRepository, image: Image, tmp_path: Path) -> None:
    """Artefact images have a config of another kind."""
    bare = Image(image.descriptor, image.manifest, media.ImageConfig())
    assert (await unpack_image(layout, bare, tmp_path / "tree", select=select)).files == len(FILES)


async def test_many_at_once_do_not_wait_for_each_other(
    layout: LayoutRepository, image: Image, tmp_path: Path
) -> None:
    """More unpackers than the loop has shared threads, with a layout that is read through those."""
    async with asyncio.timeout(60):
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(unpack_image(layout, image, tmp_path / f"out-{number}", select=select))
                for number in range(40)
            ]
    assert [task.result().files for task in tasks] == [len(FILES)] * 40
