"""Carry an image from one repository to another, byte for byte, so that its digest stays the same."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

from gkm.base.errors import UsageError
from gkm.images.media import Descriptor, decode_manifest
from gkm.images.progress import NoProgress, Progress
from gkm.images.reference import Reference
from gkm.images.repository import Repository

_PARALLEL_BLOBS = 4


@dataclass(frozen=True, slots=True)
class CopyResult:
    """What a copy did."""

    digest: str
    """Of the image's manifest, in both repositories."""
    bytes: int
    """Of blobs and manifest that travelled; blobs skipped or mounted don't count."""
    seconds: float
    blobs_skipped: int
    """Blobs that the destination had already, or took over from a neighbour without moving them."""


async def copy_image(
    source: Repository,
    reference: Reference,
    destination: Repository,
    destination_reference: Reference,
    progress: Progress | None = None,
) -> CopyResult:
    """Copy the image that `reference` names in `source`; of an index, the one image this host would use.

    Blobs go first, several at a time and straight from stream to stream; the manifest goes last, so the
    destination never names an image that is not whole there.

    Raises:
        UsageError: `destination_reference` demands a digest that the image does not have.
        RegistryError: either side failed; what was copied so far is not named by any tag.
    """
    started = time.monotonic()
    progress = progress or NoProgress()
    descriptor = await source.resolve(reference)
    if destination_reference.digest not in (None, descriptor.digest):
        raise UsageError(
            f"{reference} is {descriptor.digest}: it cannot become {destination_reference}, "
            "because a copy never changes the digest; leave out the digest there"
        )
    data = await source.read_manifest(descriptor)
    manifest = decode_manifest(data)
    blobs = {blob.digest: blob for blob in (manifest.config, *manifest.layers)}
    carrier = _Carrier(source, destination, progress)
    moved = await _gather(carrier, list(blobs.values()))
    await destination.write_manifest(data, descriptor.media_type, destination_reference.tag_to_write)
    return CopyResult(
        digest=descriptor.digest,
        bytes=sum(moved) + len(data),
        seconds=time.monotonic() - started,
        blobs_skipped=sum(1 for blob, n in zip(blobs.values(), moved, strict=True) if not n and blob.size),
    )


async def _gather(carrier: "_Carrier", blobs: list[Descriptor]) -> list[int]:
    """Carry `blobs`; the first failure cancels the others and is raised as itself."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(carrier.carry(blob)) for blob in blobs]
    except BaseExceptionGroup as failures:
        # The others were cancelled because of the first; a group would only hide it from callers.
        raise failures.exceptions[0] from failures.exceptions[0].__cause__
    return [task.result() for task in tasks]


class _Carrier:
    """Moves single blobs, a few at a time."""

    def __init__(self, source: Repository, destination: Repository, progress: Progress) -> None:
        self._source = source
        self._destination = destination
        self._progress = progress
        self._slots = asyncio.Semaphore(_PARALLEL_BLOBS)

    async def carry(self, blob: Descriptor) -> int:
        """The bytes that moved: 0 for a blob that was there or could be mounted."""
        async with self._slots:
            self._progress.start(blob.digest, blob.size)
            there = await self._destination.has_blob(blob)
            if not there and not await self._destination.mount_blob(blob, self._source):
                await self._destination.write_blob(blob, lambda: self._open(blob))
                moved = blob.size
            else:
                moved = 0
            self._progress.finish(blob.digest)
            return moved

    @asynccontextmanager
    async def _open(self, blob: Descriptor) -> AsyncIterator[AsyncIterator[bytes]]:
        # The destination opens the stream once for each of its attempts.
        self._progress.start(blob.digest, blob.size)
        async with self._source.open_blob(blob) as chunks, aclosing(self._counted(blob, chunks)) as counted:
            yield counted

    async def _counted(self, blob: Descriptor, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        async for chunk in chunks:
            self._progress.advance(blob.digest, len(chunk))
            yield chunk
