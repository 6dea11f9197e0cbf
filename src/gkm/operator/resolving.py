"""Whether a cache is to be resolved now, as whom, and when it is to be looked at again."""

from collections.abc import Callable

from gkm.api.grant import GKMGrant
from gkm.base.errors import GKMError
from gkm.kube.errors import KubeError
from gkm.operator.attempts import Failed, Outcome, Request, seconds_until_due
from gkm.operator.grants import granted
from gkm.operator.memory import Memory
from gkm.operator.mirroring import Mirror
from gkm.operator.objects import Cache, uid_of
from gkm.operator.resolution import registry_reference
from gkm.operator.resolver import Resolver
from gkm.operator.settings import Settings


class Resolving:
    """Between the reconcile, which must not wait for a registry, and the resolver, which does."""

    def __init__(
        self, resolver: Resolver, mirror: Mirror, settings: Settings, clock: Callable[[], float]
    ) -> None:
        self._resolver = resolver
        self._mirror = mirror
        self._settings = settings
        self._clock = clock

    async def tend(
        self, cache: Cache, grant: GKMGrant | None, memory: Memory, wake: Callable[[], None]
    ) -> float | None:
        """Begin what is due for `cache`; seconds until more is, None if nothing is.

        `wake` is called once there is an outcome. Raises `KubeError` where the API server does not serve.
        """
        uid, generation = uid_of(cache), cache.metadata.generation or 0
        now = self._clock()
        refresh = cache.spec.refresh_seconds
        due = seconds_until_due(self._resolver.attempt(uid), generation, refresh, now)
        failure = await self._read_secrets(cache, memory, now, due=due == 0)
        if due == 0:
            if failure is not None:
                self._resolver.record(uid, generation, failure)
                due = seconds_until_due(self._resolver.attempt(uid), generation, refresh, now)
            else:
                first = self._resolver.attempt(uid) is None
                request = Request(
                    generation=generation,
                    image=cache.spec.image,
                    namespace=cache.metadata.namespace,
                    credentials=memory.credentials,
                    known=granted(grant, generation) if first else None,
                )
                self._resolver.begin(uid, request, wake)
                due = None
        again = [due] if due is not None else []
        if cache.spec.image_pull_secrets:
            again.append(memory.secrets_read + self._settings.secret_seconds - now)
        return max(0.0, min(again)) if again else None

    def outcome(self, cache: Cache) -> Outcome | None:
        """How the last resolution of the cache's present generation ended; None: it has not."""
        attempt = self._resolver.attempt(uid_of(cache))
        if attempt is None or attempt.generation != cache.metadata.generation:
            return None
        return attempt.outcome

    async def _read_secrets(self, cache: Cache, memory: Memory, now: float, *, due: bool) -> Failed | None:
        """Bring `memory.credentials` up to date where it is time to; why that failed, if it did."""
        if not cache.spec.image_pull_secrets:
            memory.credentials = None
            return None
        if not due and now < memory.secrets_read + self._settings.secret_seconds:
            return None
        memory.secrets_read = now
        try:
            memory.credentials = await self._mirror.read(cache)
            memory.credentials_host = registry_reference(cache.spec.image).host
        except KubeError:
            memory.secrets_read = float("-inf")
            raise
        except GKMError as error:
            return Failed.by(error)
        return None
