"""Carrying out what was planned: each action is one request."""

import contextlib
from typing import Any

from gkm.api.grant import GKMGrant
from gkm.kube.client import Client
from gkm.kube.errors import NotFoundError
from gkm.operator.grants import grant_patch
from gkm.operator.objects import GRANTS, Cache, uid_of
from gkm.operator.scope import Scope
from gkm.operator.volumes import Action, Create


class Writer:
    """Writes what the operator owns. Every method raises `KubeError`, and changes nothing that it then did
    not say."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def perform(self, action: Action) -> None:
        """Create or delete an object; what is gone already is deleted."""
        if isinstance(action, Create):
            await self._client.create(action.resource, action.body)
            return
        with contextlib.suppress(NotFoundError):
            await self._client.delete(action.resource, action.name, action.namespace, uid=action.uid)

    async def grant(self, current: GKMGrant | None, wanted: GKMGrant) -> GKMGrant:
        """Bring the grant to what is `wanted`; the grant as it is now."""
        if current is None:
            return await self._client.create(GRANTS, wanted)
        patch = grant_patch(current, wanted)
        if not patch:
            return current
        return await self._client.patch(GRANTS, current.metadata.name or "", patch)

    async def metadata(self, scope: Scope, cache: Cache, changes: dict[str, Any]) -> Cache:
        """Change the cache's metadata, unless it changed since it was read (`ConflictError`)."""
        return await self._patch(scope, cache, {"metadata": changes}, "")

    async def status(self, scope: Scope, cache: Cache, changes: dict[str, Any]) -> Cache:
        """Change the cache's status, unless the cache changed since it was read (`ConflictError`)."""
        return await self._patch(scope, cache, {"metadata": {}, "status": changes}, "status")

    async def delete_grant(self, grant: GKMGrant) -> None:
        """Delete just this grant."""
        with contextlib.suppress(NotFoundError):
            await self._client.delete(GRANTS, grant.metadata.name or "", uid=uid_of(grant))

    async def _patch(self, scope: Scope, cache: Cache, body: dict[str, Any], subresource: str) -> Cache:
        meta = cache.metadata
        metadata = {**body["metadata"], "resourceVersion": meta.resource_version}
        return await self._client.patch(
            scope.caches,
            meta.name or "",
            {**body, "metadata": metadata},
            meta.namespace or "",
            subresource=subresource,
        )
