"""A repository of a registry, by the OCI distribution-spec v1.1."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

import httpx2

from gkm.base.digests import digest_bytes
from gkm.images.client import RegistryClient
from gkm.images.download import download
from gkm.images.errors import (
    BrokenStreamError,
    DigestMismatchError,
    NotFoundError,
    RefusedError,
)
from gkm.images.media import INDEX_TYPES, MANIFEST_TYPES, MAX_DOCUMENT_BYTES, Descriptor, document_type
from gkm.images.reference import DEFAULT_TAG, Reference
from gkm.images.repository import BlobSource, Repository
from gkm.images.responses import read_bounded
from gkm.images.selection import narrow
from gkm.images.upload import CREATED, mount, upload
from gkm.images.verify import check_bytes, verified

_ACCEPT = ", ".join(sorted(MANIFEST_TYPES | INDEX_TYPES))
_DIGEST_HEADER = "docker-content-digest"
_FOUND = frozenset({200})
_READ_ATTEMPTS = 3
_KEPT_MANIFESTS = 4


class RegistryRepository:
    """The images under one name in one registry.

    The methods' contract is `gkm.images.repository.Repository`'s.
    """

    def __init__(self, client: RegistryClient, http: httpx2.AsyncClient) -> None:
        """`http`, which `client` sends through, is closed with this repository."""
        self._client = client
        self._http = http
        self.host = client.host
        self.name = client.repository
        self._full_name = f"{client.host}/{client.repository}"
        # Resolving reads the manifest that is wanted next.
        self._manifests: dict[str, bytes] = {}

    async def resolve(self, reference: Reference) -> Descriptor:
        """One GET for an image, a second one where the reference leads to an index."""
        named = reference.digest or reference.tag or DEFAULT_TAG
        data, declared = await self._fetch(named)
        digest = digest_bytes(data)
        if reference.digest not in (None, digest):
            raise DigestMismatchError(
                f"{self._full_name} answered {reference.digest} with {digest}: do not trust what is there"
            )
        self._keep(digest, data)
        found = Descriptor(media_type=document_type(data, declared), digest=digest, size=len(data))
        return await narrow(self, found)

    async def read_manifest(self, descriptor: Descriptor) -> bytes:
        """From memory if it was just resolved, else by its digest."""
        data = self._manifests.get(descriptor.digest)
        if data is None:
            data, _ = await self._fetch(descriptor.digest)
            check_bytes(data, descriptor)
            self._keep(descriptor.digest, data)
        return check_bytes(data, descriptor)

    @asynccontextmanager
    async def open_blob(self, descriptor: Descriptor) -> AsyncIterator[AsyncIterator[bytes]]:
        """Stream by GET, resumed by ranges."""
        async with AsyncExitStack() as stack:
            raw = await stack.enter_async_context(aclosing(download(self._client, descriptor)))
            yield await stack.enter_async_context(aclosing(verified(raw, descriptor)))

    async def has_blob(self, descriptor: Descriptor) -> bool:
        """By HEAD."""
        doing = f"looking for {descriptor.digest} in {self._full_name}"
        url, scopes = self._client.url(f"blobs/{descriptor.digest}"), self._client.scopes("pull")
        try:
            async with self._client.request("HEAD", url, scopes, doing, expect=_FOUND) as response:
                return response.headers.get("content-length") in (None, str(descriptor.size))
        except NotFoundError:
            return False

    async def write_blob(self, descriptor: Descriptor, source: BlobSource) -> None:
        """HEAD, then POST and PUT where it is missing."""
        if await self.has_blob(descriptor):
            return
        try:
            await upload(self._client, descriptor, source)
        except OSError as error:
            raise RefusedError(f"cannot read {source} for {self._full_name}: {error}") from error

    async def mount_blob(self, descriptor: Descriptor, other: Repository) -> bool:
        """Across the repositories of one registry, where it allows that."""
        if not isinstance(other, RegistryRepository) or other.host != self.host:
            return False
        return await mount(self._client, descriptor, other.name)

    async def write_manifest(self, data: bytes, media_type: str, tag: str | None) -> Descriptor:
        """PUT under the tag, or under the digest where there is none."""
        descriptor = Descriptor(media_type=media_type, digest=digest_bytes(data), size=len(data))
        doing = f"writing the manifest of {self._full_name}:{tag}" if tag else f"writing {descriptor.digest}"
        url = self._client.url(f"manifests/{tag or descriptor.digest}")
        async with self._client.request(
            "PUT",
            url,
            self._client.scopes("pull", "push"),
            doing,
            expect=frozenset({CREATED}),
            headers={"content-type": media_type},
            content=data,
        ) as response:
            told = response.headers.get(_DIGEST_HEADER, descriptor.digest)
            if told != descriptor.digest:
                raise DigestMismatchError(
                    f"{doing}: sent {descriptor.digest}, the registry says it stored {told}"
                )
        return descriptor

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def _keep(self, digest: str, data: bytes) -> None:
        while len(self._manifests) >= _KEPT_MANIFESTS:
            del self._manifests[next(iter(self._manifests))]
        self._manifests[digest] = data

    async def _fetch(self, named: str) -> tuple[bytes, str | None]:
        """A manifest by tag or digest, unchecked, and the media type that the registry announced."""
        doing = f"reading {self._full_name}{'@' if named.startswith('sha256:') else ':'}{named}"
        url, scopes = self._client.url(f"manifests/{named}"), self._client.scopes("pull")
        headers = {"accept": _ACCEPT}
        for attempt in range(1, _READ_ATTEMPTS + 1):
            async with self._client.request(
                "GET", url, scopes, doing, expect=_FOUND, headers=headers
            ) as response:
                try:
                    data = await read_bounded(response, MAX_DOCUMENT_BYTES, doing)
                except BrokenStreamError:
                    if attempt == _READ_ATTEMPTS:
                        raise
                    continue
                return data, response.headers.get("content-type")
        raise AssertionError("unreachable: the last attempt returns or raises")
