"""What a pod gets: a digest, a cold start with its reason, or the word to come again."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from gkm.csi.errors import CacheAwaitedError, NotYetError
from gkm.csi.ports import CacheName, Caches, PodName
from gkm.csi.settings import Settings
from gkm.csi.waits import Waits


class Outcome(NamedTuple):
    """What shall be mounted."""

    digest: str | None
    """None: an empty directory."""
    write_limit_bytes: int | None = None
    known: bool = True
    """Whether the cache certainly exists for this pod: its own Events may then tell of the pod."""
    cold_allowed: bool = True
    """Whether the pod may start without it, should the digest turn out not to be mountable."""
    reason: str = ""
    """Of a cold start."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class _Unknown:
    """The answer for a cache that no grant gives to the pod, whether it exists or not: one reason for both."""

    wait_seconds: float
    digest = None
    final = False
    reason = "CacheUnavailable"
    message = (
        "no such cache is there for pods of this namespace: see its name, its namespace and its conditions"
    )
    awaited = None
    write_limit_bytes = None
    known = False


class Settler:
    """Asks, waits as long as the cache's users want, and no longer than one call may take."""

    def __init__(self, caches: Caches, settings: Settings, clock: Callable[[], float]) -> None:
        self._caches = caches
        self._settings = settings
        self._clock = clock
        self._waits = Waits(clock)
        self._waiting = 0

    async def settle(self, cache: CacheName, pod: PodName) -> Outcome:
        """What `pod` gets of `cache`; returns at once where waiting changes nothing.

        Raises:
            CacheAwaitedError: it is to be waited for longer than one call, or too many calls wait already.
            NotYetError: the same for a cache of which the pod must not learn whether it exists.
        """
        deadline = self._clock() + self._settings.call_seconds
        while True:
            answer = self._caches.lookup(*cache, pod.namespace)
            if answer is None or cache.namespace not in {None, pod.namespace}:
                # The second half repeats what the grant's schema says: a GKMCache serves its own namespace.
                answer = _Unknown(self._settings.missing_wait_seconds)
            if answer.digest is not None:
                self._waits.over(cache)
                return Outcome(
                    answer.digest, answer.write_limit_bytes, cold_allowed=answer.wait_seconds is not None
                )
            waited = self._waits.waited(cache, answer.awaited)
            wanted = math.inf if answer.wait_seconds is None else answer.wait_seconds
            if answer.final or waited >= wanted:
                return Outcome(
                    None,
                    answer.write_limit_bytes,
                    answer.known,
                    reason=answer.reason,
                    message=answer.message,
                )
            left = deadline - self._clock()
            if left <= 0 or self._waiting >= self._settings.waiting_calls:
                kind = CacheAwaitedError if answer.known else NotYetError
                raise kind(f"waiting for {cache}: {answer.reason}: {answer.message}")
            self._waiting += 1
            try:
                await self._changed(min(left, wanted - waited))
            finally:
                self._waiting -= 1

    async def _changed(self, seconds: float) -> None:
        # Whatever the other side does, this call ends.
        try:
            async with asyncio.timeout(seconds):
                await self._caches.changed(seconds)
        except TimeoutError:
            pass
