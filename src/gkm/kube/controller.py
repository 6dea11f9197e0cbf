"""The controller: watched changes become keys, and workers run the reconcile function on them.

Its contract with the reconcile function is `reconcile`'s. What it adds: several workers, a time limit for
each run, retries with backoff, and an ending in which no run is cut short unless it takes too long.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from gkm.kube.errors import TerminalError
from gkm.kube.mapping import Mapping, Predicate
from gkm.kube.objects import Key, KubeObject
from gkm.kube.queue import QueueClosedError, WorkQueue
from gkm.kube.reconcile import Reconciler, Result
from gkm.kube.reflector import Reflector
from gkm.kube.store import Change

T = TypeVar("T", bound=KubeObject)

_log = logging.getLogger(__name__)


class ControllerMetrics(Protocol):
    """What a controller measures."""

    def started(self) -> None:
        """A reconcile began."""

    def ended(self, result: str, seconds: float) -> None:
        """A reconcile ended with `success`, `requeue_after`, `error`, `terminal` or `timeout`."""


class Controller:
    """Runs `reconcile` for the keys of what it watches, `workers` at a time, each at most `timeout` seconds.

    `queue` may be given to tune backoff and rates.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconciler,
        *,
        workers: int = 1,
        timeout: float = 60.0,
        queue: WorkQueue[Key] | None = None,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self.name = name
        self.queue: WorkQueue[Key] = WorkQueue() if queue is None else queue
        self._reconcile = reconcile
        self._workers = workers
        self._timeout = timeout
        self._metrics = metrics
        self._sources: list[tuple[Reflector[Any], Callable[[Change[Any]], None]]] = []

    def watches(
        self,
        reflector: Reflector[T],
        mapping: Mapping[T],
        *,
        predicates: tuple[Predicate[T], ...] = (),
    ) -> None:
        """Work on the keys that `mapping` gives for each change that all `predicates` let through.

        The reflector is run by others (the manager), and may feed several controllers.
        """

        def enqueue(change: Change[T]) -> None:
            if all(predicate(change) for predicate in predicates):
                for key in mapping(change):
                    self.queue.add(key)

        self._sources.append((reflector, enqueue))

    @property
    def reflectors(self) -> list[Reflector[Any]]:
        """What it watches."""
        return [reflector for reflector, _ in self._sources]

    async def run(self) -> None:
        """Work until `stop`: first on everything there is, then on what changes.

        Workers start once every store is complete: an object that is not there yet must not look deleted.
        Cancelling ends running reconciles at once.
        """
        # Only now: while another process leads, keys would pile up here for nothing.
        for reflector, enqueue in self._sources:
            reflector.subscribe(enqueue)
        try:
            for reflector, _ in self._sources:
                await reflector.synced.wait()
            _log.info("controller %s: %d workers start", self.name, self._workers)
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            for reflector, enqueue in self._sources:
                reflector.unsubscribe(enqueue)

    def stop(self) -> None:
        """Begin no further reconcile; `run` returns when those under way are done."""
        self.queue.close()

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosedError:
                return
            try:
                await self._run_one(key)
            finally:
                self.queue.done(key)

    async def _run_one(self, key: Key) -> None:
        began = time.monotonic()
        outcome = "error"
        if self._metrics:
            self._metrics.started()
        try:
            limit = asyncio.timeout(self._timeout)
            try:
                async with limit:
                    result = await self._reconcile(key)
            except TimeoutError:
                if not limit.expired():
                    raise
                outcome = "timeout"
                self._retry(key, f"took longer than {self._timeout} s")
            else:
                outcome = self._succeeded(key, result)
        except TerminalError as error:
            outcome = "terminal"
            self.queue.forget(key)
            _log.error("%s %s: given up until its next change: %s", self.name, key, error)
        except Exception as error:  # noqa: BLE001  the contract: any exception is a retry
            self._retry(key, f"{type(error).__name__}: {error}")
            _log.debug("%s %s failed", self.name, key, exc_info=True)
        finally:
            if self._metrics:
                self._metrics.ended(outcome, time.monotonic() - began)

    def _succeeded(self, key: Key, result: Result) -> str:
        self.queue.forget(key)
        if result.requeue_after is None:
            return "success"
        self.queue.add_after(key, result.requeue_after)
        return "requeue_after"

    def _retry(self, key: Key, why: str) -> None:
        wait = self.queue.add_failed(key)
        _log.warning("%s %s: next try in %.1f s: %s", self.name, key, wait, why)
