"""How long the pods of this node have waited for what, shared by all of them."""

from collections.abc import Callable
from typing import NamedTuple

from gkm.csi.ports import CacheName


class _Wait(NamedTuple):
    began: float
    asked: float


class Waits:
    """When the wait for a cache's digest began: with the first publish, whichever pod's.

    So the second of two pods that follow each other (kubelet publishes a PersistentVolume's pods one by one)
    does not wait all over again. What nobody asked for in `idle` seconds is forgotten. Nothing of it is on disk:
    after a restart of the agent waits begin anew.
    """

    def __init__(self, clock: Callable[[], float], *, idle: float = 600.0) -> None:
        self._clock = clock
        self._idle = idle
        self._waits: dict[tuple[CacheName, str | None], _Wait] = {}

    def waited(self, cache: CacheName, digest: str | None) -> float:
        """Seconds since the wait for `digest` of `cache` began; 0 when it begins with this call."""
        now = self._clock()
        self._waits = {key: wait for key, wait in self._waits.items() if now - wait.asked < self._idle}
        wait = self._waits.get((cache, digest), _Wait(now, now))
        self._waits[cache, digest] = wait._replace(asked=now)
        return now - wait.began

    def over(self, cache: CacheName) -> None:
        """`cache` could be mounted: whatever was waited for has come."""
        for key in [key for key in self._waits if key[0] == cache]:
            del self._waits[key]
