"""A watch: one long response, one JSON event per line (API concepts, "Efficient detection of changes").

Bookmarks and errors are read with structs of their own: a bookmark's object is mostly empty, an error's is a
Status, and neither fits a projection.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from gkm.kube.connection import Connection
from gkm.kube.errors import ApiError, ProtocolError, error_from_status
from gkm.kube.resources import Resource

# etcd stores at most 1.5 MiB per object; a line far beyond that is no event, and must not fill our memory.
LONGEST_LINE = 16 << 20

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends a streaming list (KEP-3157, WatchList)."""


class Event(msgspec.Struct):
    """One line: `type` ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, and the object still as JSON."""

    type: str
    object: msgspec.Raw


class _BookmarkMeta(msgspec.Struct, rename="camel"):
    resource_version: str
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMeta


class LineSplitter:
    """Cuts a byte stream into lines, whatever the pieces are that it arrives in."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that `piece` completes, without their line ends; blank lines are dropped.

        Raises:
            ProtocolError: a line is longer than allowed.
        """
        first, *rest = piece.split(b"\n")
        self._parts.append(first)
        self._held += len(first)
        if self._held > self._longest:
            raise ProtocolError(f"a watch sent a line of more than {self._longest} bytes")
        if not rest:
            return []
        *middle, last = rest
        lines = [b"".join(self._parts), *middle]
        self._parts, self._held = [last], len(last)
        return [line for line in lines if line.strip()]

    def end(self) -> None:
        """The stream ended.

        Raises:
            ProtocolError: in the middle of a line; what was cut off is no event.
        """
        if self._held:
            raise ProtocolError("the watch was cut in the middle of a line")


@contextlib.asynccontextmanager
async def open_watch(
    connection: Connection,
    resource: Resource[Any],
    namespace: str,
    query: Mapping[str, str],
    *,
    read_timeout: float,
) -> AsyncIterator[AsyncIterator[list[Event]]]:
    """Start a watch and hand out its events in batches, as they arrive together, until the server ends it.

    Raises, at the start and while it is read:
        ApiError: the answer's status, or the Status of an ERROR event.
        UnreachableError: the connection was lost, or silent for `read_timeout` seconds.
        ProtocolError: cut in the middle of a line, or a line that is no event.
    """
    path = resource.path(namespace=namespace)
    async with connection.stream(
        path, query={**query, "watch": "true"}, accept=resource.accept, read_timeout=read_timeout
    ) as pieces:
        yield _events(pieces)


async def _events(pieces: AsyncIterator[bytes]) -> AsyncIterator[list[Event]]:
    splitter = LineSplitter()
    decoder = msgspec.json.Decoder(Event)
    async for piece in pieces:
        events = []
        for line in splitter.feed(piece):
            try:
                events.append(decoder.decode(line))
            except msgspec.MsgspecError as error:
                raise ProtocolError(f"a line of the watch is not an event: {error}") from error
        if events:
            yield events
    splitter.end()


def read_bookmark(event: Event) -> tuple[str, bool]:
    """The resourceVersion of a BOOKMARK event, and whether it ends the initial events.

    Raises:
        ProtocolError: it holds no resourceVersion.
    """
    try:
        metadata = msgspec.json.decode(event.object, type=_Bookmark).metadata
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"a bookmark without its resourceVersion: {error}") from error
    return metadata.resource_version, (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"


def read_error(event: Event) -> ApiError:
    """The error that an ERROR event reports."""
    return error_from_status(event.object, request="watch")
