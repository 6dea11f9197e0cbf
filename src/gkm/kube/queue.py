"""The work queue: a schedule with a clock, waiting workers, per-key backoff, and a limit on all retries
together."""

import asyncio
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from gkm.base.backoff import Backoff
from gkm.kube.bucket import TokenBucket
from gkm.kube.schedule import K, Schedule

K_contra = TypeVar("K_contra", contravariant=True)


class QueueClosedError(Exception):
    """No more keys will come: the worker is to end."""


class QueueMetrics(Protocol[K_contra]):
    """What a queue measures; keys are given so that times can be taken."""

    def added(self, key: K_contra) -> None:
        """Work on `key` became wanted."""

    def taken(self, key: K_contra) -> None:
        """Work on `key` began."""

    def done(self, key: K_contra) -> None:
        """Work on `key` ended."""

    def retried(self) -> None:
        """A key failed and will be tried again."""


class WorkQueue(Generic[K]):
    """Keys for workers: each at most once in the queue, and never in two hands.

    `backoff` says how long a key waits after its failures in a row, `bucket` how many retries of all keys
    together there may be: a fault that hits every key must not become a storm. Not for use from threads.
    """

    def __init__(
        self,
        *,
        backoff: Backoff | None = None,
        bucket: TokenBucket | None = None,
        metrics: QueueMetrics[K] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._schedule: Schedule[K] = Schedule()
        self._backoff = backoff or Backoff(first=0.1, longest=300.0, jitter=0.2)
        self._bucket = bucket or TokenBucket()
        self._metrics = metrics
        self._clock = clock
        self._failures: dict[K, int] = {}
        self._changed = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        """How many keys are ready."""
        return len(self._schedule)

    def add(self, key: K) -> None:
        """Have `key` worked on as soon as a worker is free."""
        if self._schedule.add(key):
            if self._metrics:
                self._metrics.added(key)
            self._changed.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Have `key` worked on in `seconds`, or earlier if that was asked for already."""
        self._schedule.add_at(key, self._clock() + seconds)
        self._changed.set()

    def add_failed(self, key: K) -> float:
        """Have `key` tried again after its backoff; seconds until then."""
        self._failures[key] = failures = self._failures.get(key, 0) + 1
        wait = max(self._backoff.delay(failures), self._bucket.reserve(self._clock()))
        if self._metrics:
            self._metrics.retried()
        self.add_after(key, wait)
        return wait

    def forget(self, key: K) -> None:
        """Work on `key` succeeded, or is given up: its failures count no more."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key, once there is one; call `done` with it afterwards, whatever happened.

        Raises:
            QueueClosedError: the queue was closed.
        """
        while True:
            if self._closed:
                raise QueueClosedError
            for woken in self._schedule.wake(self._clock()):
                if self._metrics:
                    self._metrics.added(woken)
            key = self._schedule.take()
            if key is not None:
                if self._metrics:
                    self._metrics.taken(key)
                return key
            # Nothing is awaited between the look and this, so no wake-up is missed.
            self._changed.clear()
            moment = self._schedule.next_moment()
            try:
                async with asyncio.timeout(None if moment is None else max(0.0, moment - self._clock())):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def done(self, key: K) -> None:
        """Work on `key` is over; if it was added meanwhile it is ready again."""
        if self._metrics:
            self._metrics.done(key)
        if self._schedule.done(key):
            self._changed.set()

    def close(self) -> None:
        """Hand out no more keys; workers that wait are told so."""
        self._closed = True
        self._changed.set()
