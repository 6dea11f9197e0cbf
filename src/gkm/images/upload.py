"""Sends a blob to a registry: POST for a place, the bytes in one PUT (distribution-spec, "Pushing blobs")."""

import asyncio
from contextlib import aclosing, suppress

import httpx2

from gkm.base.backoff import Backoff
from gkm.images.blobs import open_source
from gkm.images.client import RegistryClient
from gkm.images.errors import RegistryError, UnauthorizedError, UnavailableError
from gkm.images.media import Descriptor
from gkm.images.repository import BlobSource
from gkm.images.verify import verified

CREATED, ACCEPTED, NO_CONTENT = 201, 202, 204
_ATTEMPTS = 4
_BACKOFF = Backoff(first=0.2, longest=5.0)


async def upload(client: RegistryClient, descriptor: Descriptor, source: BlobSource) -> None:
    """Store the blob; a connection that breaks starts it over, with `source` opened anew.

    Raises:
        UnavailableError: it broke each time.
        DigestMismatchError, SizeMismatchError: `source` is not what the descriptor says.
        OSError: `source` is a file that cannot be read.
        RegistryError: the registry refused.
    """
    for failures in range(1, _ATTEMPTS + 1):
        place = await _begin(client, descriptor)
        try:
            await _put(client, place, descriptor, source)
        except (UnavailableError, UnauthorizedError):
            # Unauthorized after a place was given: the token ran out, and the next POST gets a new one.
            if failures == _ATTEMPTS:
                raise
        else:
            return
        await asyncio.sleep(_BACKOFF.delay(failures))


async def mount(client: RegistryClient, descriptor: Descriptor, neighbour: str) -> bool:
    """Take the blob over from the repository `neighbour` of the same registry; False where it will not.

    A registry that cannot, or does not let us see the neighbour, opens an upload instead, which is given up.
    """
    doing = f"taking {descriptor.digest} over from {client.host}/{neighbour}"
    url = client.url("blobs/uploads/").copy_merge_params({"mount": descriptor.digest, "from": neighbour})
    scopes = (*client.scopes("pull", "push"), f"repository:{neighbour}:pull")
    try:
        async with client.request(
            "POST", url, scopes, doing, expect=frozenset({CREATED, ACCEPTED})
        ) as response:
            if response.status_code == CREATED:
                return True
            place = client.url(response.headers.get("location", ""))
    except UnavailableError:
        raise
    except RegistryError:
        # Whatever forbids this, an upload will do; if that is forbidden too, it says so better.
        return False
    with suppress(RegistryError):
        async with client.request(
            "DELETE", place, client.scopes("pull", "push"), doing, expect=frozenset({NO_CONTENT})
        ):
            pass
    return False


async def _begin(client: RegistryClient, descriptor: Descriptor) -> httpx2.URL:
    doing = _doing(client, descriptor)
    url, scopes = client.url("blobs/uploads/"), client.scopes("pull", "push")
    async with client.request("POST", url, scopes, doing, expect=frozenset({ACCEPTED})) as response:
        return client.url(response.headers.get("location", ""))


async def _put(client: RegistryClient, place: httpx2.URL, descriptor: Descriptor, source: BlobSource) -> None:
    headers = {"content-type": "application/octet-stream", "content-length": str(descriptor.size)}
    # The place may carry a query of its own, which belongs to the registry (distribution-spec).
    url = place.copy_add_param("digest", descriptor.digest)
    async with (
        open_source(source) as chunks,
        aclosing(verified(chunks, descriptor)) as good,
        client.request(
            "PUT",
            url,
            client.scopes("pull", "push"),
            _doing(client, descriptor),
            expect=frozenset({CREATED}),
            headers=headers,
            content=good,
        ),
    ):
        return


def _doing(client: RegistryClient, descriptor: Descriptor) -> str:
    return f"writing {descriptor.digest} to {client.host}/{client.repository}"
