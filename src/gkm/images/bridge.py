"""An image out of a repository into a directory: downloading on the event loop, unpacking in a thread.

Nothing is stored in between: bytes are unpacked as they come, and what they were not (a wrong digest, a cut
stream) ends in an error that takes the whole tree back.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from gkm.images.errors import RegistryError
from gkm.images.image import Image
from gkm.images.limits import Limits
from gkm.images.media import Descriptor
from gkm.images.pipe import ChunkPipe
from gkm.images.progress import NoProgress, Progress
from gkm.images.repository import Repository
from gkm.images.unpack import LayerStream, UnpackResult, discard, unpack
from gkm.images.unpack_errors import (
    CorruptLayerError,
    DiffIDMismatchError,
    TrailingDataError,
    TruncatedLayerError,
)

_CHECK_SECONDS = 30.0
_DAMAGE = (CorruptLayerError, TruncatedLayerError, TrailingDataError, DiffIDMismatchError)
"""What bytes that were changed on their way look like too, before their digest is known."""


class _AbandonedError(Exception):
    """Ends the thread's work when nobody waits for its result any more."""


async def unpack_image(
    repository: Repository,
    image: Image,
    destination: Path,
    *,
    select: Callable[[str], str | None],
    limits: Limits | None = None,
    open_to_all: bool = False,
    progress: Progress | None = None,
) -> UnpackResult:
    """Fetch the layers of `image` from `repository` and unpack them below `destination`.

    Parameters and rules are those of `gkm.images.unpack.unpack`. Returns when the thread has ended, also when
    cancelled: nothing is written afterwards, and after a failure or cancellation nothing is left.

    Raises:
        RegistryError: a layer cannot be fetched, or is not what its descriptor says.
        DestinationNotEmptyError, LayerError, OSError: as `unpack` does.
    """
    layers = image.manifest.layers
    pipes = [ChunkPipe() for _ in layers]
    diff_ids = image.config.rootfs.diff_ids or (None,) * len(layers)
    streams = [
        LayerStream(layer.media_type, pipe, diff_id)
        for layer, pipe, diff_id in zip(layers, pipes, diff_ids, strict=True)
    ]
    # A thread of its own: a layout is read through the loop's shared threads, and unpackers that wait for
    # chunks there would leave none to read them with.
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gkm-unpack")
    work = asyncio.get_running_loop().run_in_executor(
        executor, partial(unpack, streams, destination, select=select, limits=limits, open_to_all=open_to_all)
    )
    enough = asyncio.Event()
    pump = asyncio.create_task(_pump(repository, layers, pipes, progress or NoProgress(), enough))
    try:
        try:
            # Cancelling the future of a running thread would only forget the thread.
            return await asyncio.shield(work)
        except _DAMAGE as refused:
            enough.set()
            if wrong := await _wrong_bytes(pump, pipes):
                raise wrong from refused
            raise
    except BaseException:
        for pipe in pipes:
            pipe.fail(_AbandonedError())
        pump.cancel()
        await _settle(pump, work)
        if not work.exception():  # cancelled in the moment of success
            await asyncio.to_thread(discard, destination)
        raise
    finally:
        executor.shutdown(wait=False)


async def _wrong_bytes(pump: asyncio.Task[None], pipes: Sequence[ChunkPipe]) -> RegistryError | None:
    """Whether the place sent other bytes than it promised: whoever reads to the layer's end knows.

    Else it would be chance which of two errors the same damage gives: that of the stream, or that of the digest.
    A layer that takes too long to read is judged by its stream.
    """
    for pipe in pipes:
        pipe.drop()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CHECK_SECONDS):
            await pump
    return next((pipe.error for pipe in pipes if isinstance(pipe.error, RegistryError)), None)


async def _pump(
    repository: Repository,
    layers: Sequence[Descriptor],
    pipes: Sequence[ChunkPipe],
    progress: Progress,
    enough: asyncio.Event,
) -> None:
    """Feed every layer into its pipe, one after the other, as the thread reads them; none begins after `enough`."""
    try:
        for layer, pipe in zip(layers, pipes, strict=True):
            if enough.is_set():
                return
            progress.start(layer.digest, layer.size)
            left = layer.size
            async with repository.open_blob(layer) as chunks:
                async for chunk in chunks:
                    await pipe.put(chunk)
                    progress.advance(layer.digest, len(chunk))
                    left -= len(chunk)
                    if left < 0 and enough.is_set():
                        return
            pipe.finish()
            progress.finish(layer.digest)
    except Exception as error:  # noqa: BLE001  the thread raises it, and through it `unpack_image`
        for pipe in pipes:
            pipe.fail(error)


async def _settle(pump: asyncio.Task[None], work: asyncio.Future[UnpackResult]) -> None:
    """Wait until both have ended, however often this task is cancelled meanwhile."""
    pending: set[asyncio.Future[object]] = {pump, work}  # type: ignore[arg-type]  # Future is invariant
    while pending:
        try:
            _, pending = await asyncio.wait(pending)
        except asyncio.CancelledError:
            continue
