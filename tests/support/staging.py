"""Cache images in a layout directory, ready to be staged, and a repository that can be held up or watched."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from gkm.caches.image_paths import image_path, manifests
from gkm.caches.labels import image_labels
from gkm.caches.scan import scan
from gkm.images.image import Image, fetch_image
from gkm.images.layout import LayoutRepository
from gkm.images.media import Descriptor
from gkm.images.pack import pack
from gkm.images.reference import LayoutReference


def write_files(root: Path, files: Mapping[str, bytes]) -> Path:
    """Write `files` below `root`."""
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return root


async def pack_into_layout(tree: Path, layout: Path) -> None:
    """Make the layout directory `layout` with an image of the cache at `tree`."""
    inventory = scan(tree)
    assert inventory.formats, "the test packs something that is no cache"
    files: dict[str, Path | bytes] = {name: tree / path for path, name in image_path(inventory).items()}
    with tempfile.TemporaryDirectory() as scratch:
        packed = pack(
            files | manifests(inventory), labels=image_labels(inventory), title=None, into=Path(scratch)
        )
        repository = LayoutRepository(layout)
        for descriptor, source in packed.blobs:
            await repository.write_blob(descriptor, source)
        await repository.write_manifest(packed.manifest, packed.manifest_descriptor.media_type, "1")


async def image_of(repository: LayoutRepository, layout: Path) -> Image:
    """The one image of the layout."""
    return await fetch_image(repository, LayoutReference(layout, "1", None))


class WatchedRepository(LayoutRepository):
    """A layout whose layers are counted as they are opened, and can be held up after their first bytes."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.opened = 0
        self.started = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.failure: Exception | None = None

    def open_blob(self, descriptor: Descriptor) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._open(descriptor)

    @asynccontextmanager
    async def _open(self, descriptor: Descriptor) -> AsyncIterator[AsyncIterator[bytes]]:
        async with super().open_blob(descriptor) as chunks:
            if "layer" in descriptor.media_type:
                self.opened += 1
                yield self._held_up(chunks)
            else:
                yield chunks

    async def _held_up(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            yield chunk[:100]
            self.started.set()
            await self.go_on.wait()
            if self.failure is not None:
                raise self.failure
            yield chunk[100:]
