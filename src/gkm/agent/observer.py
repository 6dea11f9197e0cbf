"""The observer as the agent sees it: a process that is started when first needed, and started anew if it dies."""

import asyncio
import contextlib
import itertools
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from gkm.agent.messages import LINE_LENGTH
from gkm.agent.sightings import Finish, Order, Sighting, Watch, encode

PROGRAM = (sys.executable, "-I", "-m", "gkm.agent.observing")
_LONGEST_LINE = 64 * LINE_LENGTH
_ANSWER_SECONDS = 10.0

_log = logging.getLogger(__name__)


@dataclass
class _Watched:
    tree: str
    seen: Callable[[Sighting], None]
    lost: Callable[[], None]
    answer: asyncio.Future[Sighting] | None = None
    """Resolved by the first sighting after an order."""
    ending: bool = False
    ordered: bool = False
    """Whether the process was told to watch it."""


class Observer:
    """Gives orders to the observing process. Nothing here raises: what cannot be observed is not counted."""

    def __init__(self, program: Sequence[str] = PROGRAM) -> None:
        self._program = program
        self._numbers = itertools.count(1)
        self._watched: dict[int, _Watched] = {}
        self._views: Counter[str] = Counter()
        """How many views of each tree the process watches, once it has obeyed all that it was told."""
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Start the observing process now rather than with the first view."""
        try:
            await self._running()
        except OSError as error:
            _log.warning("the observer cannot be started: %s", error)

    async def watch(
        self,
        view: str,
        tree: str,
        wanted: Iterable[str],
        *,
        mounted: bool,
        seen: Callable[[Sighting], None],
        lost: Callable[[], None],
    ) -> int:
        """Observe `view`; when this returns, observation has begun or failed. The number is for `finish`.

        `wanted` are the files that matter, the same for all views of one `tree`; they are told once while any is
        observed.
        `seen` hears of every sighting, `lost` that the observing process died and sees nothing more.
        """
        number = next(self._numbers)
        watched = _Watched(tree, seen, lost)
        self._watched[number] = watched

        def order() -> Watch:
            known = self._views[tree] > 0
            self._views[tree] += 1
            watched.ordered = True
            return Watch(number, view, tree, None if known else tuple(wanted), mounted)

        await self._order(watched, order)
        return number

    async def finish(self, number: int) -> None:
        """Let go of a view; `seen` has heard the last of it when this returns."""
        watched = self._watched.get(number)
        if watched is None:
            return
        watched.ending = True

        def order() -> Finish:
            if watched.ordered:
                watched.ordered = False
                self._views[watched.tree] -= 1
            return Finish(number)

        await self._order(watched, order)
        self._watched.pop(number, None)

    async def aclose(self) -> None:
        """End the observing process."""
        process, listening = self._process, self._listening
        if process is not None and listening is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await listening

    async def _order(self, watched: _Watched, order: Callable[[], Order]) -> None:
        """Give the order and await its answer. `order` is called when nothing can come before it any more."""
        watched.answer = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                process = await self._running()
                assert process.stdin is not None
                process.stdin.write(encode(order()))
                await process.stdin.drain()
                await watched.answer
        except (OSError, TimeoutError) as error:
            _log.warning("a view is not observed: %s: %s", type(error).__name__, error)
            watched.lost()
        finally:
            watched.answer = None

    async def _running(self) -> asyncio.subprocess.Process:
        async with self._starting:
            if self._process is None:
                self._process = await asyncio.create_subprocess_exec(
                    *(*self._program, str(os.getpid())),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    limit=_LONGEST_LINE,
                    cwd="/",
                )
                self._views.clear()
                self._listening = asyncio.create_task(self._listen(self._process))
            return self._process

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            while data := await process.stdout.readline():
                self._hear(msgspec.json.decode(data, type=Sighting))
        except (msgspec.DecodeError, ValueError):
            _log.exception("the observer wrote what is no sighting")
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.wait()
        self._process = None
        lost, self._watched = self._watched, {}
        if lost:
            _log.error("the observer ended with status %s: %d views unseen", process.returncode, len(lost))
        for watched in lost.values():
            if watched.answer is None:
                watched.lost()
            elif not watched.answer.done():  # whoever waits for it tells that it is lost
                watched.answer.set_exception(ConnectionResetError("the observer ended"))

    def _hear(self, sighting: Sighting) -> None:
        watched = self._watched.get(sighting.id)
        if watched is None:
            return
        watched.seen(sighting)
        if watched.answer is not None and not watched.answer.done() and sighting.last == watched.ending:
            watched.answer.set_result(sighting)
