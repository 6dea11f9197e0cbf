"""Streams a blob from a registry, and goes on where it stood when the connection breaks."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from gkm.base.backoff import Backoff
from gkm.images.client import RegistryClient, body
from gkm.images.errors import BrokenStreamError, UnavailableError
from gkm.images.media import Descriptor
from gkm.images.ranges import (
    NOT_SATISFIABLE,
    OK,
    PARTIAL,
    PRECONDITION_FAILED,
    bytes_to_skip,
    range_headers,
    strong_etag,
)

_ANSWERS = frozenset({OK, PARTIAL, PRECONDITION_FAILED, NOT_SATISFIABLE})
_MOST_FAILURES = 5
# A stream that gets on between its failures is a slow one, not a broken one.
_PROGRESS_BYTES = 1 << 20
_BACKOFF = Backoff(first=0.2, longest=5.0)


@dataclass
class _Stand:
    """How far the stream has come, and of what."""

    position: int = 0
    etag: str | None = None


async def download(client: RegistryClient, descriptor: Descriptor) -> AsyncGenerator[bytes, None]:
    """The blob's bytes as the registry sends them, each once, not yet verified; never fewer than promised.

    Raises:
        BrokenStreamError: the stream broke again and again without getting on.
        RegistryError: the registry refused, or answered another request than ours.
    """
    stand, mark, failures = _Stand(), 0, 0
    while True:
        try:
            async with aclosing(_attempt(client, descriptor, stand)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except UnavailableError as error:
            # Before the first byte the transport below has tried often enough; after it, a restart of the
            # registry is worth waiting for.
            if not stand.position and not isinstance(error, BrokenStreamError):
                raise
            failures = failures + 1 if stand.position - mark < _PROGRESS_BYTES else 1
            mark = stand.position
            if failures >= _MOST_FAILURES:
                raise
        else:
            return
        await asyncio.sleep(_BACKOFF.delay(failures))


async def _attempt(
    client: RegistryClient, descriptor: Descriptor, stand: _Stand
) -> AsyncGenerator[bytes, None]:
    """One response's worth of bytes, from where the stream stands; keeps `stand` up to date."""
    doing = f"reading {descriptor.digest} of {client.host}/{client.repository}"
    url, scopes = client.url(f"blobs/{descriptor.digest}"), client.scopes("pull")
    headers = range_headers(stand.position, stand.etag)
    async with client.request("GET", url, scopes, doing, expect=_ANSWERS, headers=headers) as response:
        if response.status_code == PRECONDITION_FAILED:
            # Another copy of the object, as a mirror may have; the digest tells whether it is the same.
            stand.etag = None
            raise BrokenStreamError(f"{doing}: the stored object changed while it was read")
        skip = bytes_to_skip(response.status_code, response.headers, stand.position, descriptor)
        stand.etag = strong_etag(response.headers)
        async with aclosing(body(response, doing)) as chunks:
            async for chunk in chunks:
                fresh = chunk[skip:]
                skip -= len(chunk) - len(fresh)
                stand.position += len(fresh)
                if fresh:
                    yield fresh
    if stand.position < descriptor.size:
        # A response that tells no length ends the same way whether it is whole or was cut.
        raise BrokenStreamError(f"{doing}: ended after {stand.position} of {descriptor.size} bytes")
