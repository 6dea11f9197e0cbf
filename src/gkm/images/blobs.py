"""Files as streams of chunks, without blocking the event loop."""

import asyncio
import os
import stat
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from gkm.images.repository import BlobSource, Chunks

CHUNK_BYTES = 1 << 20


def open_source(source: BlobSource) -> Chunks:
    """Open `source` once; entering raises `OSError` for a file that cannot be read."""
    return file_chunks(source) if isinstance(source, Path) else source()


@asynccontextmanager
async def file_chunks(path: Path) -> AsyncIterator[AsyncIterator[bytes]]:
    """Stream the regular file at `path`. Entering and iterating raise `OSError` like `open_regular`."""
    # Not in a thread: cancelled while it opens, nobody would close what it opened.
    with open_regular(path) as file:
        async with aclosing(_read(file)) as chunks:
            yield chunks


async def _read(file: BinaryIO) -> AsyncGenerator[bytes, None]:
    while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
        yield chunk


def open_regular(path: Path) -> BinaryIO:
    """Open a file that someone else may have put there: a FIFO would hang and a device never end.

    Raises:
        OSError: like `open`, and for anything that is not a regular file.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{path} is not a regular file")
    return os.fdopen(fd, "rb")
