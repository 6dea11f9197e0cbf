"""Taking away what was made for a cache: for one that is being deleted, and for one that is gone already."""

import logging

from gkm.kube.client import Client
from gkm.kube.errors import NotFoundError
from gkm.kube.objects import Key
from gkm.operator.deletion import Step, next_step
from gkm.operator.grants import withdrawn
from gkm.operator.mirroring import Mirror
from gkm.operator.objects import uid_of
from gkm.operator.scope import granted_key, scope_of
from gkm.operator.volumes import left_over, withdraw
from gkm.operator.world import World
from gkm.operator.writing import Writer

_log = logging.getLogger(__name__)


class Remover:
    """Does one step at a time; the change that it makes brings the cache's key back for the next."""

    def __init__(self, client: Client, world: World, writer: Writer, mirror: Mirror) -> None:
        self._client = client
        self._world = world
        self._writer = writer
        self._mirror = mirror

    async def step(self, name: str, uid: str, *, in_use: bool) -> Step:
        """Do the next step for the cache with this name and UID; which one it was.

        `Step.RELEASE` is the caller's to do: nothing of the cache is left.
        """
        world = self._world
        volumes, claims = world.volumes_of(uid), world.claims_of(name, uid)
        grant = world.grant(uid)
        namespaces = left_over(volumes, claims, ())
        step = next_step(grant, in_use=in_use, volumes=bool(namespaces), secret=world.secret(uid) is not None)
        if step is Step.WITHDRAW and grant is not None:
            await self._writer.grant(grant, withdrawn(grant))
        elif step is Step.REMOVE_VOLUMES:
            for namespace in namespaces:
                for action in withdraw(uid, world.place(name, uid, namespace))[1]:
                    await self._writer.perform(action)
        elif step is Step.REMOVE_SECRET:
            await self._mirror.remove(uid)
        elif step is Step.REMOVE_GRANT and grant is not None:
            await self._writer.delete_grant(grant)
        return step

    async def strangers(self, key: Key) -> None:
        """Take away what names a cache at `key` that is no more: its finalizer was removed by force, or an
        object was made while it went.

        The stores may lag behind each other, so the API server is asked before anything is touched.
        """
        for uid in self._world.strangers(key):
            if await self._exists(key, uid):
                continue
            step = await self.step(key.name, uid, in_use=False)
            _log.info("the cache %s with UID %s is gone: %s", key, uid, step.value)

    async def _exists(self, key: Key, uid: str) -> bool:
        """Whether a cache with this UID is at `key`, at the place its grant names, or cluster-scoped."""
        grant = self._world.grant(uid)
        places = {key, Key("", key.name)} | ({granted_key(grant.spec.cache)} if grant else set())
        for place in places:
            try:
                found = await self._client.get(scope_of(place).caches, place.name, place.namespace)
            except NotFoundError:
                continue
            if uid_of(found) == uid:
                return True
        return False
