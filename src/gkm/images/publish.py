"""A packed image into a registry or layout directory: blobs first, manifest last."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from gkm.images.blobs import file_chunks
from gkm.images.errors import InvalidReferenceError
from gkm.images.media import Descriptor
from gkm.images.pack import PackedImage
from gkm.images.progress import NoProgress, Progress
from gkm.images.reference import Reference
from gkm.images.repository import Repository


async def publish(
    image: PackedImage, destination: Repository, reference: Reference, *, progress: Progress | None = None
) -> None:
    """Write `image` to `destination`, which `reference` names, and point its tag there.

    Raises:
        InvalidReferenceError: `reference` asks for a digest that is not the image's.
        RegistryError: as the destination does; blobs that arrived stay, the tag has not moved.
        OSError: a blob's file cannot be read.
    """
    if reference.digest not in (None, image.digest):
        raise InvalidReferenceError(
            f"{reference} asks for a digest, and what was packed is {image.digest}: name a tag instead"
        )
    watched = progress or NoProgress()
    for descriptor, path in image.blobs:
        watched.start(descriptor.digest, descriptor.size)
        if not await destination.has_blob(descriptor):
            await destination.write_blob(descriptor, _Watched(descriptor, path, watched).open)
        watched.finish(descriptor.digest)
    await destination.write_manifest(
        image.manifest, image.manifest_descriptor.media_type, reference.tag_to_write
    )


class _Watched:
    """A blob's file as a stream whose progress is told; opened once for each attempt to write it."""

    def __init__(self, descriptor: Descriptor, path: Path, progress: Progress) -> None:
        self._descriptor = descriptor
        self._path = path
        self._progress = progress

    @asynccontextmanager
    async def open(self) -> AsyncIterator[AsyncIterator[bytes]]:
        self._progress.start(self._descriptor.digest, self._descriptor.size)
        async with file_chunks(self._path) as chunks, aclosing(self._counted(chunks)) as counted:
            yield counted

    async def _counted(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        async for chunk in chunks:
            self._progress.advance(self._descriptor.digest, len(chunk))
            yield chunk
