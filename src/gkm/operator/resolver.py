"""Asking registries and the gate, beside the reconciles: a registry that is slow holds up no other cache."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import NoReturn

from gkm.base.errors import GKMError
from gkm.operator.attempts import Attempt, Failed, Judged, Outcome, Request, begun, finished
from gkm.operator.resolution import resolve
from gkm.operator.settings import Settings
from gkm.trust.gate import Candidate, Gate

_log = logging.getLogger(__name__)


class Resolver:
    """Runs one attempt per cache at a time, `Settings.resolutions` in all, and remembers how the last ended.

    Caches are told apart by UID. `run` does the work. `measured` is told of each attempt how many seconds it
    took, and the reason of one that failed.
    """

    def __init__(
        self,
        gate: Gate,
        settings: Settings,
        clock: Callable[[], float] = time.monotonic,
        *,
        measured: Callable[[float, str | None], None] = lambda _seconds, _failure: None,
    ) -> None:
        self._gate = gate
        self._settings = settings
        self._clock = clock
        self._measured = measured
        self._attempts: dict[str, Attempt] = {}
        self._wanted: asyncio.Queue[tuple[str, Request, Callable[[], None]]] = asyncio.Queue()

    def attempt(self, uid: str) -> Attempt | None:
        """The last attempt for the cache; None if this process made none."""
        return self._attempts.get(uid)

    def begin(self, uid: str, request: Request, done: Callable[[], None]) -> None:
        """Find out what `request` asks, and call `done` then. One that runs already is left to end."""
        before = self._attempts.get(uid)
        if before is not None and before.running:
            return
        self._attempts[uid] = begun(before, request.generation)
        self._wanted.put_nowait((uid, request, done))

    def record(self, uid: str, generation: int, failure: Failed) -> None:
        """Remember that an attempt failed before anything could be asked."""
        attempt = begun(self._attempts.get(uid), generation)
        self._attempts[uid] = finished(attempt, failure, self._clock(), self._settings.backoff)

    def forget(self, uid: str) -> None:
        """Drop what is known of a cache that is gone."""
        self._attempts.pop(uid, None)

    async def run(self) -> NoReturn:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._settings.resolutions):
                group.create_task(self._work())
        raise AssertionError("unreachable: the workers never end")

    async def _work(self) -> NoReturn:
        while True:
            uid, request, done = await self._wanted.get()
            begun_at = self._clock()
            outcome = await self._find_out(request)
            failure = outcome.reason if isinstance(outcome, Failed) else None
            self._measured(self._clock() - begun_at, failure)
            attempt = self._attempts.get(uid)
            if attempt is None or not attempt.running:
                continue
            self._attempts[uid] = finished(attempt, outcome, self._clock(), self._settings.backoff)
            done()

    async def _find_out(self, request: Request) -> Outcome:
        seconds = self._settings.resolve_seconds
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._judge(request)
        except GKMError as error:
            return Failed.by(error)
        except TimeoutError:
            if not limit.expired():
                raise
            return Failed("RegistryTimeout", f"{request.image}: no answer within {seconds:g} s; trying again")
        except Exception as error:  # noqa: BLE001  a worker that ended would leave later caches unresolved
            _log.exception("resolving %s", request.image)
            return Failed("InternalError", f"{request.image}: {type(error).__name__}: {error}")

    async def _judge(self, request: Request) -> Judged:
        settings = self._settings
        found = request.known or await resolve(
            request.image, settings.registries, settings.plain_http_hosts, request.credentials
        )
        judgement = await self._gate.judge(Candidate(found.image, request.namespace))
        return Judged(found, judgement)
