"""Lists, page by page: how the API hands out many objects without holding them all (API concepts,
"Chunking")."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from gkm.kube.connection import Connection
from gkm.kube.errors import ProtocolError
from gkm.kube.resources import Resource

PAGE = 500
"""Objects per page, client-go's default too."""


class _ListMeta(msgspec.Struct, rename="camel", frozen=True):
    """`metadata` of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct):
    """The objects of one page as JSON, and the resourceVersion of the whole list.

    Not yet decoded, because one that does not fit the projection must not cost the others.
    """

    items: list[msgspec.Raw]
    resource_version: str


class _Answer(msgspec.Struct):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


async def list_pages(
    connection: Connection,
    resource: Resource[Any],
    namespace: str,
    query: Mapping[str, str],
    *,
    limit: int = PAGE,
) -> AsyncIterator[Page]:
    """The pages of one consistent list of at most `limit` objects each (0: a single page).

    `query` holds the selectors and the version asked for.

    Raises:
        ExpiredError: the list took longer than the server keeps its snapshot; start again.
        KubeError: whatever else `Connection.send` raises.
    """
    path, asked = resource.path(namespace=namespace), dict(query)
    if limit:
        asked["limit"] = str(limit)
    while True:
        answer = await connection.send("GET", path, query=asked, accept=resource.accept_list)
        try:
            page = msgspec.json.decode(answer, type=_Answer)
        except msgspec.MsgspecError as error:
            raise ProtocolError(f"the answer is not a list of {resource}: {error}") from error
        if not page.metadata.resource_version:
            raise ProtocolError(f"a list of {resource} came without metadata.resourceVersion")
        yield Page(page.items or [], page.metadata.resource_version)
        if not page.metadata.continue_:
            return
        # The token stands for the version of the first page; naming a version beside it is an error.
        asked = {k: v for k, v in asked.items() if not k.startswith("resourceVersion")}
        asked["continue"] = page.metadata.continue_
