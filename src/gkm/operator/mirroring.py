"""Pull secrets, read where users keep them and mirrored, reduced, to where agents may read them."""

import base64
import contextlib

from gkm.kube.client import Client
from gkm.kube.errors import NotFoundError
from gkm.operator.objects import SECRETS, Cache, Secret, uid_of
from gkm.operator.pull_secrets import (
    DOCKER_CONFIG,
    DOCKER_CONFIG_TYPE,
    PullSecretError,
    reduce_secrets,
)
from gkm.operator.resolution import registry_reference
from gkm.operator.settings import Settings
from gkm.operator.volumes import labels
from gkm.operator.world import World, secret_name


class Mirror:
    """Reads users' secrets one by one, as caches name them: no right to list them is needed."""

    def __init__(self, client: Client, world: World, settings: Settings) -> None:
        self._client = client
        self._world = world
        self._system = settings.system_namespace

    async def read(self, cache: Cache) -> bytes:
        """The one entry for the cache's registry among its pull secrets, as a ``.dockerconfigjson``.

        A secret that is missing is passed over where another one serves, as kubelet does.

        Raises:
            PullSecretError: none serves.
            InvalidReferenceError: the cache names no image in a registry.
            KubeError: the API server does not answer, or refuses.
        """
        namespace = cache.metadata.namespace or self._system
        found: list[Secret] = []
        missing: list[str] = []
        for named in cache.spec.image_pull_secrets or ():
            try:
                found.append(await self._client.get(SECRETS, named.name, namespace))
            except NotFoundError:
                missing.append(f"{namespace}/{named.name}")
        image = registry_reference(cache.spec.image)
        if not found:
            raise PullSecretError(f"there is no secret {', '.join(missing)}: create it")
        return reduce_secrets(found, image)

    async def write(self, cache: Cache, document: bytes) -> None:
        """Have the mirrored secret of the cache hold just `document`."""
        uid = uid_of(cache)
        data = {DOCKER_CONFIG: base64.b64encode(document).decode()}
        there = self._world.secret(uid)
        if there is None:
            await self._client.create(
                SECRETS,
                {
                    "metadata": {"name": secret_name(uid), "namespace": self._system, "labels": labels(uid)},
                    "type": DOCKER_CONFIG_TYPE,
                    "data": data,
                },
            )
        elif there.data != data:
            gone = dict.fromkeys(set(there.data or {}) - set(data))
            await self._client.patch(SECRETS, secret_name(uid), {"data": {**gone, **data}}, self._system)

    async def remove(self, uid: str) -> None:
        """Delete the mirrored secret of the cache with this UID, if there is one."""
        there = self._world.secret(uid)
        if there is not None:
            with contextlib.suppress(NotFoundError):
                await self._client.delete(SECRETS, there.metadata.name, self._system, uid=there.metadata.uid)
