"""The reconcile of one cache of either kind: look at the stores, plan, write what differs.

Order: finalizer; resolution begun; pull secret; grant; claims and volumes; annotations; status. So whatever
nodes obey is written before what people read, and a process that dies between two writes leaves nothing that
the next one would not see.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from gkm.api.status import CacheStatus
from gkm.kube.client import Client
from gkm.kube.errors import AlreadyExistsError, ConflictError, KubeError
from gkm.kube.events import Type
from gkm.kube.objects import Key, KubeObject
from gkm.kube.reconcile import Result
from gkm.kube.resources import Resource
from gkm.operator import grants
from gkm.operator import status as statuses
from gkm.operator.announce import announcements
from gkm.operator.conditions import Facts
from gkm.operator.counting import Views, counting
from gkm.operator.deletion import Step
from gkm.operator.delivery import Delivered
from gkm.operator.memory import Memory
from gkm.operator.metadata import hold, mirror, release
from gkm.operator.mirroring import Mirror
from gkm.operator.objects import Cache, uid_of
from gkm.operator.removal import Remover
from gkm.operator.resolution import registry_reference
from gkm.operator.resolver import Resolver
from gkm.operator.resolving import Resolving
from gkm.operator.scope import Scope, scope_of, workload_namespaces
from gkm.operator.settings import Settings
from gkm.operator.tally import tally
from gkm.operator.volumes import Stage, deliver, left_over, withdraw
from gkm.operator.world import World, secret_name
from gkm.operator.writing import Writer


class Announcer(Protocol):
    """Tells Events; `gkm.kube.events.EventRecorder` is one."""

    def event(
        self,
        resource: Resource[Any],
        regarding: KubeObject,
        type: Type,  # noqa: A002  the API's word
        reason: str,
        note: str,
    ) -> None:
        """Tell that `reason` happened to `regarding`."""


class CacheReconciler:
    """Brings one cache in line. `wake` has a key reconciled again; it is called when a resolution ends."""

    def __init__(
        self,
        client: Client,
        world: World,
        resolver: Resolver,
        announcer: Announcer,
        settings: Settings,
        wake: Callable[[Key], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._world = world
        self._resolver = resolver
        self._announcer = announcer
        self._settings = settings
        self._wake = wake
        self._clock = clock
        self._writer = Writer(client)
        self._mirror = Mirror(client, world, settings)
        self._resolving = Resolving(resolver, self._mirror, settings, clock)
        self._remover = Remover(client, world, self._writer, self._mirror)
        self._memories: dict[Key, Memory] = {}

    async def reconcile(self, key: Key) -> Result:
        """The reconcile function; raises `KubeError` for what the API server refuses."""
        try:
            return await self._reconcile(key)
        except (ConflictError, AlreadyExistsError):
            # The stores were older than what they were acted upon; the newer state is on its way.
            return Result(requeue_after=self._settings.retry_seconds)

    async def _reconcile(self, key: Key) -> Result:
        await self._remover.strangers(key)
        cache = self._world.cache(key)
        memory = self._remember(key, cache)
        if cache is None or memory is None:
            return Result()
        if cache.metadata.deletion_timestamp:
            return await self._delete(key, cache, memory)
        return await self._keep(key, cache, memory)

    async def _keep(self, key: Key, cache: Cache, memory: Memory) -> Result:
        scope, uid = scope_of(key), uid_of(cache)
        if change := hold(cache, scope.finalizer):
            cache = await self._writer.metadata(scope, cache, change)
        grant = self._world.grant(uid)
        again = [await self._resolving.tend(cache, grant, memory, lambda: self._wake(key))]
        outcome = self._resolving.outcome(cache)
        serves = grants.serving(grant, outcome)
        newest = serves.digest if serves else None
        views = self._views(key)
        counted = tally(views.nodes, newest)
        secret = await self._mirror_secret(cache, serves.image if serves else None, memory)
        wanted = grants.desired(cache, grant, outcome, counted.needed, pull_secret=secret)
        memory.saw(newest, grant.spec.digests[0] if grant and grant.spec.digests else None, self._clock())
        grant = await self._writer.grant(grant, wanted)
        if not secret:
            await self._mirror.remove(uid)
        delivered, failure = await self._deliver(key, cache)
        if change := mirror(cache, serves):
            cache = await self._writer.metadata(scope, cache, change)
        answer = memory.digest_since + self._settings.answer_seconds - self._clock()
        facts = Facts(
            cache=cache,
            grant=grant,
            outcome=outcome,
            tally=counted,
            delivered=delivered,
            candidates=self._world.has_candidates(grants.node_selector(cache.spec)),
            may_answer=answer > 0,
        )
        again += [
            answer if answer > 0 else None,
            self._seconds_until(views.until),
            await self._report(scope, facts, memory),
        ]
        if failure is not None:
            raise failure
        return _soonest(again)

    async def _delete(self, key: Key, cache: Cache, memory: Memory) -> Result:
        scope, uid = scope_of(key), uid_of(cache)
        views = self._views(key)
        counted = tally(views.nodes, None, deleting=True)
        step = await self._remover.step(key.name, uid, in_use=counted.in_use)
        if step is Step.RELEASE:
            self._resolver.forget(uid)
            if change := release(cache, scope.finalizer):
                await self._writer.metadata(scope, cache, change)
            return Result()
        facts = Facts(
            cache=cache,
            grant=None,
            outcome=None,
            tally=counted,
            delivered=Delivered({}),
            candidates=True,
            may_answer=False,
        )
        return _soonest([self._seconds_until(views.until), await self._report(scope, facts, memory)])

    async def _mirror_secret(self, cache: Cache, image: str | None, memory: Memory) -> str | None:
        """Mirror the credentials for `image`, which nodes are to pull; the secret's name, None without one."""
        if not cache.spec.image_pull_secrets:
            return None
        name, document = secret_name(uid_of(cache)), memory.credentials
        if image and document and registry_reference(image).host == memory.credentials_host:
            await self._mirror.write(cache, document)
            return name
        return name if self._world.secret(uid_of(cache)) else None

    async def _deliver(self, key: Key, cache: Cache) -> tuple[Delivered, KubeError | None]:
        """Bring claims and volumes in line, one namespace's trouble apart from another's; the first trouble."""
        uid, wanted = uid_of(cache), workload_namespaces(cache)
        stages: dict[str, Stage] = {}
        failures: dict[str, KubeError] = {}
        written = 0
        claims = self._world.claims_of(key.name, uid)
        unwanted = left_over(self._world.volumes_of(uid), claims, wanted or ())
        for namespace in (*(wanted or ()), *unwanted):
            place = self._world.place(key.name, uid, namespace)
            if namespace in unwanted:
                _, actions = withdraw(uid, place)
            else:
                stages[namespace], actions = deliver(key, uid, place)
            if written >= self._settings.volume_writes:
                # What is made wakes this cache again, for the rest.
                continue
            try:
                for action in actions:
                    await self._writer.perform(action)
                    written += 1
            except (ConflictError, AlreadyExistsError):
                # Made or changed a moment ago; the store will say so.
                continue
            except KubeError as error:
                failures[namespace] = error
        told = {namespace: (error.reason, str(error)) for namespace, error in failures.items()}
        delivered = Delivered(stages, every_namespace=wanted is None, failures=told)
        return delivered, next(iter(failures.values()), None)

    async def _report(self, scope: Scope, facts: Facts, memory: Memory) -> float | None:
        """Write the status if it is to change now; seconds until it is to, where that is later."""
        cache, before = facts.cache, facts.cache.status
        # RFC 3339 in whole seconds, as Kubernetes writes times.
        now = datetime.now(UTC).replace(microsecond=0)
        wanted: CacheStatus = statuses.status(facts, now)
        changes, only_counts = statuses.patch(before, wanted, now)
        if not changes:
            return None
        wait = memory.counted + self._settings.count_seconds - self._clock()
        if only_counts and wait > 0:
            return wait
        await self._writer.status(scope, cache, changes)
        if "counts" in changes:
            memory.counted = self._clock()
        for told in announcements(before, wanted):
            self._announcer.event(scope.caches, cache, told.type, told.reason, told.note)
        return None

    def _views(self, key: Key) -> Views:
        reports = self._world.reports_on(key)
        grace = timedelta(seconds=self._settings.node_grace_seconds)
        return counting(reports, self._world.nodes_by_name(reports), key.name, datetime.now(UTC), grace)

    def _seconds_until(self, moment: datetime | None) -> float | None:
        return None if moment is None else max(0.0, (moment - datetime.now(UTC)).total_seconds())

    def _remember(self, key: Key, cache: Cache | None) -> Memory | None:
        """The memory of the cache at `key`; another cache's of the same name is dropped."""
        memory = self._memories.get(key)
        if memory is not None and (cache is None or memory.uid != uid_of(cache)):
            self._resolver.forget(memory.uid)
            del self._memories[key]
        return self._memories.setdefault(key, Memory(uid_of(cache))) if cache is not None else None


def _soonest(waits: list[float | None]) -> Result:
    """When to look again: the soonest of `waits`, if any."""
    given = [wait for wait in waits if wait is not None]
    # A moment later than computed, so that what was waited for has come.
    return Result(requeue_after=max(0.0, min(given)) + 0.01) if given else Result()
