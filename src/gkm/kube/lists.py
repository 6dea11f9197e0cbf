"""Lists, read as they arrive: many objects without holding them all, whether or not the server sends them in
pages (API concepts, "Chunking")."""

from collections.abc import AsyncGenerator, Mapping
from typing import Any

import msgspec

from gkm.kube.connection import Connection
from gkm.kube.errors import CutListError, ProtocolError, UnreachableError
from gkm.kube.resources import Resource
from gkm.kube.splitting import ListSplitter

PAGE = 500
"""Objects per page, client-go's default too."""


class _ListMeta(msgspec.Struct, rename="camel", frozen=True):
    """`metadata` of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Part(msgspec.Struct):
    """Some objects of a list as JSON, and the resourceVersion of the whole list, empty where it is not known
    yet (it is in the last part, which may hold no objects).

    Not yet decoded, because one that does not fit the projection must not cost the others.
    """

    items: list[msgspec.Raw]
    resource_version: str = ""


class _Answer(msgspec.Struct):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


async def read_list(
    connection: Connection,
    resource: Resource[Any],
    namespace: str,
    query: Mapping[str, str],
    *,
    limit: int = PAGE,
) -> AsyncGenerator[Part, None]:
    """One consistent list in parts; the server is asked for at most `limit` objects at a time (0: for all).

    `query` holds the selectors and the version asked for. A server that answers from its watch cache may
    send everything at once in spite of `limit`: it is read in parts all the same. Close the iterator, or
    leave it at its end.

    Raises:
        ExpiredError: the list took longer than the server keeps its snapshot; start again.
        CutListError: the connection was lost in the middle of an answer.
        KubeError: whatever else `Connection.stream` raises.
    """
    path, asked = resource.path(namespace=namespace), dict(query)
    if limit:
        asked["limit"] = str(limit)
    while True:
        splitter, began = ListSplitter(), False
        try:
            async with connection.stream(
                path, query=asked, accept=resource.accept_list, compressed=True
            ) as pieces:
                async for piece in pieces:
                    began = True
                    if items := splitter.feed(piece):
                        yield Part(items)
        except UnreachableError as error:
            if began:
                raise CutListError(f"a list of {resource} was cut: {error}") from error
            raise
        try:
            rest = msgspec.json.decode(splitter.end(), type=_Answer)
        except msgspec.MsgspecError as error:
            raise ProtocolError(f"the answer is not a list of {resource}: {error}") from error
        if not rest.metadata.resource_version:
            raise ProtocolError(f"a list of {resource} came without metadata.resourceVersion")
        yield Part(rest.items or [], rest.metadata.resource_version)
        if not rest.metadata.continue_:
            return
        # The token stands for the version of the first page; naming a version beside it is an error.
        asked = {k: v for k, v in asked.items() if not k.startswith("resourceVersion")}
        asked["continue"] = rest.metadata.continue_
