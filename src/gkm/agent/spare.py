"""A child that was started before there is something for it to do, and how children end."""

import asyncio
import contextlib
import logging
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable

from gkm.base.errors import GKMError

_SOON = 1.0
"""Seconds after which a child is started that is to be kept. What the last one was needed for, a pod's start,
comes first: importing is computing."""

_log = logging.getLogger(__name__)


class Spare:
    """At most one child that `start` started, for whoever takes it. Lives on the event loop."""

    def __init__(self, start: Callable[[], Awaitable[Process]], *, after: float = _SOON) -> None:
        self._start = start
        self._after = after
        self._child: asyncio.Task[Process | None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def keep(self, *, wanted: bool) -> None:
        """Whether there is to be one from now on; one that was taken, or died, is replaced at the next call."""
        if wanted and self._lacks():
            self._child = asyncio.create_task(self._begin())
        elif not wanted and self._child is not None:
            ending = asyncio.create_task(_dismiss(self._child))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            self._child = None

    def take(self) -> Process | None:
        """The child, the caller's from now on; None where none has started: waiting for it gains nothing."""
        if self._child is None or not self._child.done() or self._lacks():
            return None
        child, self._child = self._child.result(), None
        return child

    async def aclose(self) -> None:
        """End it."""
        self.keep(wanted=False)
        await asyncio.gather(*self._ending)

    def _lacks(self) -> bool:
        """Whether none is here or on its way."""
        if self._child is None:
            return True
        if not self._child.done():
            return False
        child = self._child.result()
        return child is None or child.returncode is not None

    async def _begin(self) -> Process | None:
        await asyncio.sleep(self._after)
        try:
            return await self._start()
        except GKMError as error:
            # Who needs one starts it, and can be told.
            _log.warning("no child is kept ready: %s", error)
            return None


async def end(child: Process) -> None:
    """Kill `child` and wait for it, also when cancelled meanwhile: what it wrote is deleted next."""
    with contextlib.suppress(ProcessLookupError):
        child.kill()
    waiting = asyncio.ensure_future(child.wait())
    cancelled = False
    while not waiting.done():
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


async def _dismiss(starting: asyncio.Task[Process | None]) -> None:
    starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        child = await starting
        if child is not None:
            await end(child)
