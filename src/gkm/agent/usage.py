"""Who uses what, and counting of hits and misses: what the CSI driver tells of its views ends up in the reports.

While a view is mounted its opens are observed by a process of their own (`gkm.agent.observing`); now and then,
and once it is unmounted, a child without privileges compares what the pod wrote with the tree
(`gkm.agent.counting`), if it wrote anything (`gkm.agent.untouched`). Nothing here raises: counting must never be in a
pod's way.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gkm.agent.counter import Counter
from gkm.agent.counting import CountAnswer, CountRequest
from gkm.agent.observer import Observer
from gkm.agent.sightings import Sighting
from gkm.agent.untouched import count_untouched
from gkm.agent.uses import Counted, Use, View, digests_in_use, use_of, with_counts
from gkm.api.values import Observation
from gkm.base.errors import GKMError
from gkm.store.store import Store

_FIRST_COUNT_SECONDS = 2.0
_LONGEST_COUNT_SECONDS = 120.0
_OBSERVED_SECONDS = 600.0
"""Counted from the first entry that a workload opens; what it has not opened by then is counted without
(fanotify has its price). Who opens none costs nothing, and may yet be loading a model."""

_REMEMBERED = 32
"""Trees whose payloads are kept in memory, the last ones used."""

_log = logging.getLogger(__name__)


class _Tree(NamedTuple):
    """A tree as counting needs it; its inventory is megabytes, and is not kept."""

    directory: Path
    payloads: tuple[tuple[str, ...], ...]
    """Of each of its entries."""


@dataclass
class _Tracked:
    view: View
    tree: _Tree
    number: int = 0
    opened: set[str] = field(default_factory=set)
    observation: Observation = Observation.NONE
    active: asyncio.Event = field(default_factory=asyncio.Event)
    used: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the pod has opened an entry."""
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class Usage:
    """Keeps `uses` up to date; `changed` is called after each change, `counted` with the last hits and misses of
    each view."""

    def __init__(
        self,
        store: Store,
        observer: Observer,
        counter: Counter,
        *,
        changed: Callable[[], None],
        counted: Callable[[int, int], None] = lambda hits, misses: None,  # noqa: ARG005  heard by nobody
    ) -> None:
        self.uses: dict[Path, Use] = {}
        self._store = store
        self._observer = observer
        self._counter = counter
        self._changed = changed
        self._counted = counted
        self._tracked: dict[Path, _Tracked] = {}
        self._known: dict[str, _Tree] = {}

    async def start(self) -> None:
        """Have the observer at hand, so that no pod waits for its start."""
        await self._observer.start()

    def digests(self) -> frozenset[str]:
        """Digests that pods have mounted."""
        return digests_in_use(self.uses.values())

    async def mounted(self, view: View, *, restored: bool) -> None:
        """`view` stands at its target; observation has begun, or cannot, when this returns."""
        if view.target in self.uses:
            return
        self.uses[view.target] = use_of(view)
        self._changed()
        known = await self._tree(view)
        if known is None:
            return
        tracked = _Tracked(view, known)
        self._tracked[view.target] = tracked
        tracked.number = await self._observer.watch(
            str(view.target),
            known.directory.name,
            itertools.chain.from_iterable(known.payloads),
            mounted=view.mode != "copy",
            seen=lambda sighting: _note(tracked, sighting, restored=restored),
            lost=lambda: _lost(tracked),
        )
        tracked.tasks = [asyncio.create_task(self._count_now_and_then(tracked))]
        tracked.tasks.append(asyncio.create_task(self._stop_observing(tracked)))

    async def unmounting(self, view: View) -> None:
        """Let go of `view`, so that it can be unmounted."""
        tracked = self._tracked.get(view.target)
        if tracked is not None:
            await _end(tracked.tasks)
            await self._observer.finish(tracked.number)

    async def unmounted(self, view: View) -> None:
        """`view` is gone; its upper is counted a last time before this returns."""
        await self.unmounting(view)
        tracked = self._tracked.pop(view.target, None)
        if tracked is not None:
            await self._count(tracked)
        use = self.uses.pop(view.target, None)
        if use is not None:
            if use.pod.hits is not None and use.pod.misses is not None:
                self._counted(use.pod.hits, use.pod.misses)
            self._changed()

    async def aclose(self) -> None:
        """Stop counting; views stay as they are."""
        for tracked in self._tracked.values():
            await _end(tracked.tasks)
        await self._observer.aclose()

    async def _tree(self, view: View) -> _Tree | None:
        """The tree below `view`; None where there is none to count."""
        if view.digest is None:
            return None
        known = self._known.pop(view.digest, None)
        if known is None:
            try:
                known = await asyncio.to_thread(_read, self._store, view.digest)
            except GKMError as error:
                _log.warning("%s is not counted: %s", view.target, error)
            if known is None:
                return None
        self._known[view.digest] = known
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        return known

    async def _count_now_and_then(self, tracked: _Tracked) -> None:
        """Count while the workload does something new, ever more seldom."""
        wait = _FIRST_COUNT_SECONDS
        while True:
            await tracked.active.wait()
            await asyncio.sleep(wait)
            tracked.active.clear()
            await self._count(tracked)
            wait = min(wait * 2, _LONGEST_COUNT_SECONDS)

    async def _stop_observing(self, tracked: _Tracked) -> None:
        await tracked.used.wait()
        await asyncio.sleep(_OBSERVED_SECONDS)
        await self._observer.finish(tracked.number)

    async def _count(self, tracked: _Tracked) -> None:
        view, tree, opened = tracked.view, tracked.tree, tuple(sorted(tracked.opened))
        answer = None
        if view.mode != "copy":  # there the upper also holds what the pod found
            answer = await asyncio.to_thread(count_untouched, tree.payloads, opened, view.upper)
        if answer is None:
            request = CountRequest(tree=str(tree.directory), upper=str(view.upper), opened=opened)
            answer = await self._counter.count(request)
        if answer.problem:
            _log.warning("%s is not counted: %s", tracked.view.target, answer.problem)
        self._publish(tracked, answer)

    def _publish(self, tracked: _Tracked, answer: CountAnswer) -> None:
        use = self.uses.get(tracked.view.target)
        if use is None:
            return
        unknown = answer.hits is None
        counted = Counted(answer.hits, answer.misses, Observation.NONE if unknown else tracked.observation)
        fresh = with_counts(use, counted)
        if fresh != use:
            self.uses[tracked.view.target] = fresh
            self._changed()


def _read(store: Store, digest: str) -> _Tree | None:
    tree = store.tree(digest)
    if tree is None:
        return None
    return _Tree(tree.directory, tuple(entry.payload for entry in tree.inventory.entries))


def _note(tracked: _Tracked, sighting: Sighting, *, restored: bool) -> None:
    tracked.opened.update(sighting.opened)
    if sighting.opened:
        tracked.used.set()
    tracked.observation = _word(sighting.kind, restored=restored)
    tracked.active.set()


def _lost(tracked: _Tracked) -> None:
    if tracked.observation != Observation.NONE:
        tracked.observation = Observation.PARTIAL_RESTARTED
    tracked.active.set()


def _word(kind: str, *, restored: bool) -> Observation:
    if kind == "none":
        return Observation.NONE
    if kind == "partial":
        return Observation.PARTIAL_OVERFLOW
    return Observation.PARTIAL_RESTARTED if restored else Observation.COMPLETE


async def _end(tasks: Collection[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
