"""What a pod gets of a cache at this moment: answered from memory, without I/O."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gkm.agent.fitness import Fitness
from gkm.agent.grants import CacheKey, allows, find, is_ending, newest, staged_digest
from gkm.agent.state import NodeState
from gkm.api.grant import GKMGrant
from gkm.api.values import CacheKind, WhenUnavailable

DEFAULT_WAIT_SECONDS = 30.0
"""How long pods wait for a cache of which this node knows nothing (the default of ``spec.waitSeconds``)."""


@dataclass(frozen=True, slots=True)
class Answer:
    """With a digest: mount it. Without: `reason` and `message` say why, `final` that waiting changes nothing,
    `awaited` which digest is on its way. `wait_seconds` is how long to wait (None: as long as it takes), told with a
    digest too: should it not be mountable, the pod starts cold or waits by the same rule. `known` is false of a cache
    that may not exist."""

    digest: str | None = None
    final: bool = False
    reason: str = ""
    message: str = ""
    awaited: str | None = None
    wait_seconds: float | None = DEFAULT_WAIT_SECONDS
    write_limit_bytes: int | None = None
    known: bool = True


_UNAVAILABLE = Answer(
    known=False,
    reason="CacheUnavailable",
    message="no such cache is there for pods of this namespace: see its name, its namespace and its conditions",
)
"""The one answer to names that do not exist and names that are not for this pod."""

_NOT_SYNCED = Answer(
    known=False,
    reason="NotSynced",
    message="this node has not heard from the API server yet, and so of no cache",
)


class Answers:
    """Looks caches up for pods. `synced` tells whether `grants` are complete; `demand` is told the grant and
    the digest that a pod waits for."""

    def __init__(
        self,
        state: NodeState,
        *,
        grants: Callable[[], Iterable[GKMGrant]],
        synced: Callable[[], bool],
        judge: Callable[[GKMGrant], Fitness],
        demand: Callable[[GKMGrant, str], None],
        clock: Callable[[], float],
    ) -> None:
        self._state = state
        self._grants = grants
        self._synced = synced
        self._judge = judge
        self._demand = demand
        self._clock = clock

    def lookup(self, kind: CacheKind, namespace: str | None, name: str, pod_namespace: str) -> Answer:
        """The answer for a pod of `pod_namespace`. Asking counts as the first use of an OnDemand cache."""
        if not self._synced():
            return _NOT_SYNCED
        grant = find(self._grants(), CacheKey(kind, namespace, name))
        if grant is None or not allows(grant, pod_namespace):
            return _UNAVAILABLE
        serving = staged_digest(grant, self._state.staged)
        if serving is not None:
            self._state.promised[serving] = self._clock()
            self._ask(grant)
            return Answer(
                digest=serving,
                wait_seconds=_wait_seconds(grant),
                write_limit_bytes=grant.spec.write_limit_bytes,
            )
        return self._unavailable(grant)

    def ask(self, key: CacheKey, pod_namespace: str) -> None:
        """A pod that names the cache was bound to this node: stage it before kubelet asks."""
        grant = find(self._grants(), key)
        if grant is not None and allows(grant, pod_namespace):
            self._ask(grant)

    async def changed(self, timeout: float) -> None:
        """Return when an answer may have changed since the call, or after `timeout` seconds."""
        await self._state.changed(timeout)

    def _ask(self, grant: GKMGrant) -> None:
        digest = newest(grant)
        if digest is not None and digest not in self._state.staged and self._judge(grant).fits:
            self._demand(grant, digest)

    def _unavailable(self, grant: GKMGrant) -> Answer:
        waits = grant.spec.when_unavailable == WhenUnavailable.WAIT
        digest = newest(grant)

        def no(reason: str, message: str, *, final: bool = False) -> Answer:
            return Answer(
                final=final and not waits,
                reason=reason,
                message=message,
                awaited=digest,
                wait_seconds=_wait_seconds(grant),
                write_limit_bytes=grant.spec.write_limit_bytes,
            )

        if is_ending(grant):
            return no("CacheDeleting", "the cache is being deleted", final=True)
        if digest is None:
            return no("NotGranted", "no digest of the cache is allowed yet; its conditions say why")
        fitness = self._judge(grant)
        if not fitness.fits:
            return no(fitness.reason, f"the cache does not fit this node: {fitness.message}", final=True)
        self._ask(grant)
        error = self._state.errors.get(digest)
        if error is not None:
            return no(error.reason, error.message)
        return no("Staging", self._on_its_way(grant, digest))

    def _on_its_way(self, grant: GKMGrant, digest: str) -> str:
        """Who is slow. Without figures: told again and again, it has to read the same."""
        host = (grant.spec.image or "").partition("/")[0]
        if digest not in self._state.staging:
            return "the cache is on its way to this node: its turn to be staged has not come"
        said = "is still sending it" if digest in self._state.moving else "has sent nothing of it yet"
        return f"the cache is on its way to this node: {host} {said}"


def _wait_seconds(grant: GKMGrant) -> float | None:
    return None if grant.spec.when_unavailable == WhenUnavailable.WAIT else float(grant.spec.wait_seconds)
