"""The mount machine: one target, one change at a time, and no change left half-done because a caller hung up.

* A task of the machine does the work and the call awaits it shielded: cancelling an `asyncio` call would leave
  its thread mounting.
* Calls are ordered by target path: all pods of a PersistentVolume share a volume ID.
* A publish that was overtaken by an unpublish of the same target mounts nothing any more; and what a publish
  made whose caller hung up goes again, unless a later call relied on it: gRPC may begin a cancelled publish after
  the unpublish that followed it (seen), and nobody would ever ask for that mount to go.
* Kubelet has its answer to an unpublish once the mount and the target are gone; accounting and deleting follow.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from gkm.base.errors import GKMError
from gkm.csi.describe import describe
from gkm.csi.errors import NotYetError
from gkm.csi.plan import is_droppable, plan_publish, plan_unpublish
from gkm.csi.ports import Usage
from gkm.csi.views import Views
from gkm.store.errors import MountBusyError, StoreError, disk_error
from gkm.store.host import HostedView, Wish
from gkm.store.journal import current_boot
from gkm.store.linux.mountpoint import is_mount_point

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class Place:
    """One target, as long as a call needs it."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.lock = asyncio.Lock()
        self.unpublished = 0
        """How often an unpublish has come: a publish notes it and sees whether it was overtaken."""
        self.relied_on = 0
        """How often a publish found or made the mount: who takes his own back sees whether another needs it."""


class _Published(NamedTuple):
    """How a publish ended."""

    view: HostedView | None
    """None: something was mounted."""
    number: int
    """What `Place.relied_on` was then."""


class Machine:
    """Publishes and unpublishes. `restore` before anything else."""

    def __init__(
        self,
        views: Views,
        usage: Usage,
        *,
        busy_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._views = views
        self._usage = usage
        self._busy_seconds = busy_seconds
        self._clock = clock
        self._places: WeakValueDictionary[Path, Place] = WeakValueDictionary()
        self._busy_since: dict[Path, float] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._finishing: set[Path] = set()

    def place(self, target: Path) -> Place:
        """The state of `target`; hold on to it from the first look to the last."""
        return self._places.setdefault(target, Place(target))

    async def restore(self) -> None:
        """Take up what an earlier agent, or the same before a reboot, left. Raises `StoreError`."""
        await _in_thread(self._views.prepare)
        plan = await _in_thread(self._views.start_plan)
        for view in plan.restored:
            await self._usage.mounted(describe(view), restored=True)
        for view in plan.end:
            await self._end(view, detached=False)
        for view in plan.drop:
            self._finish(view)
        await _in_thread(self._views.drop_strays)

    async def is_published(self, place: Place) -> bool:
        """Whether the target is mounted, and nobody is at work on it."""
        async with place.lock:
            mounted = await _in_thread(lambda: is_mount_point(place.target))
            place.relied_on += mounted
            return mounted

    async def publish(
        self, place: Place, seen_unpublished: int, wish: Callable[[], Wish]
    ) -> HostedView | None:
        """Mount what `wish` says, unless something is mounted; None when something was.

        `wish` is called in a thread, once it is certain that a view is to be made. `seen_unpublished` is
        `place.unpublished` at the beginning of the call.

        Raises:
            NotYetError: an unpublish came meanwhile.
            MountError, StoreError: nothing was mounted, and nothing is left.
        """
        work = self._spawn(self._publish(place, seen_unpublished, wish))
        try:
            return (await asyncio.shield(work)).view
        except asyncio.CancelledError:
            self._spawn(self._take_back(place, work))
            raise

    async def unpublish(self, place: Place) -> None:
        """Take whatever is at the target away, and the target.

        Raises:
            MountBusyError: a process still uses it; kubelet tries again.
            MountError, StoreError: it could not be done.
        """
        place.unpublished += 1
        await asyncio.shield(self._spawn(self._unpublish(place)))

    async def tidy(self) -> None:
        """Take up what could not be finished before. Raises `StoreError`."""
        boot = current_boot()
        for view in await _in_thread(self._views.all):
            if is_droppable(view, boot):
                self._finish(view)

    async def drain(self) -> None:
        """Wait until everything begun is done."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _publish(self, place: Place, seen: int, wish: Callable[[], Wish]) -> _Published:
        async with place.lock:
            if place.unpublished != seen:
                raise NotYetError(f"{place.target} was unpublished meanwhile")
            plan = plan_publish(await _in_thread(lambda: self._views.find(place.target)))
            place.relied_on += 1
            for leftover in plan.end:
                await self._end(leftover, detached=False)
            if not plan.make:
                return _Published(None, place.relied_on)
            view = await _in_thread(lambda: self._views.make(wish()))
            await self._usage.mounted(describe(view), restored=False)
            return _Published(view, place.relied_on)

    async def _take_back(self, place: Place, work: asyncio.Task[_Published]) -> None:
        await asyncio.wait([work])
        if work.cancelled() or work.exception() is not None:
            return
        view, number = work.result()
        async with place.lock:
            found = await _in_thread(lambda: self._views.find(place.target))
            if place.relied_on == number and found.mounted and view in found.live:
                _log.info("the call that mounted %s was given up: unmounting it", place.target)
                await self._take_down(place.target)

    async def _unpublish(self, place: Place) -> None:
        async with place.lock:
            await self._take_down(place.target)

    async def _take_down(self, target: Path) -> None:
        """With the lock of `target` held."""
        plan = plan_unpublish(await _in_thread(lambda: self._views.find(target)))
        detached = False
        if plan.unmount:
            for view in plan.end:
                await self._usage.unmounting(describe(view))
            detached = await self._unmount(target)
        await _in_thread(lambda: self._views.remove(target))
        for view in plan.end:
            await self._end(view, detached=detached)

    async def _unmount(self, target: Path) -> bool:
        """Returns whether the mount was left to its last user."""
        try:
            await _in_thread(lambda: self._views.unmount(target, lazily=False))
        except MountBusyError:
            now = self._clock()
            since = self._busy_since.setdefault(target, now)
            if since == now or now - since < self._busy_seconds:
                raise
            _log.warning(
                "%s stayed busy: it is left to the process that uses it, until the next boot", target
            )
            await _in_thread(lambda: self._views.unmount(target, lazily=True))
            del self._busy_since[target]
            return True
        self._busy_since.pop(target, None)
        return False

    async def _end(self, view: HostedView, *, detached: bool) -> None:
        marked = await _in_thread(lambda: self._views.mark(view, detached=detached))
        self._finish(marked)

    def _finish(self, view: HostedView) -> None:
        """Account for a view that is gone from its target, and delete its files, when there is time."""
        if view.directory not in self._finishing:
            self._finishing.add(view.directory)
            self._spawn(self._finishing_of(view))

    async def _finishing_of(self, view: HostedView) -> None:
        try:
            await self._usage.unmounted(describe(view))
            if is_droppable(view, current_boot()):
                await _in_thread(lambda: self._views.drop(view))
        except GKMError as error:
            _log.warning("what is left of the mount at %s is tried again later: %s", view.target, error)
        finally:
            self._finishing.discard(view.directory)

    def _spawn(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        # A caller who hung up asks no more; without this Python complains that nobody looked.
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.info("a call ended with %s: %s", type(error).__name__, error)


async def _in_thread(work: Callable[[], _T]) -> _T:
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        raise _as_store_error(error) from error


def _as_store_error(error: OSError) -> StoreError:
    where = Path(str(error.filename)) if error.filename is not None else Path("/")
    return disk_error(error, "mounting or unmounting", where)
