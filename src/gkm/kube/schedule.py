"""The order of work: which key is worked on next, and never by two at once. Pure: time is handed in.

A key is in one of four states, and in the last two at once at most: idle; delayed until a moment; ready;
being worked on. A key that is added while it is worked on becomes ready when that is done, however often it
was added: no change is lost, and none is worked on twice for nothing (client-go's work queue has the same
contract).
"""

import heapq
import itertools
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Schedule(Generic[K]):
    """Keys that wait for work. Moments are seconds on any one clock."""

    def __init__(self) -> None:
        self._ready: deque[K] = deque()
        # What is to be worked on, ready or (while being worked on) again afterwards.
        self._wanted: set[K] = set()
        self._working: set[K] = set()
        self._when: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._serial = itertools.count()

    def __len__(self) -> int:
        """How many keys are ready."""
        return len(self._ready)

    @property
    def delayed(self) -> int:
        """How many keys wait for their moment."""
        return len(self._when)

    def add(self, key: K) -> bool:
        """Want `key` worked on; whether that is news."""
        if key in self._wanted:
            return False
        self._wanted.add(key)
        if key not in self._working:
            self._ready.append(key)
        return True

    def add_at(self, key: K, moment: float) -> None:
        """Want `key` worked on at `moment`, or earlier if that was asked for already."""
        if moment < self._when.get(key, float("inf")):
            self._when[key] = moment
            heapq.heappush(self._heap, (moment, next(self._serial), key))

    def next_moment(self) -> float | None:
        """When the next delayed key is due, if there is one."""
        while self._heap and self._when.get(self._heap[0][2]) != self._heap[0][0]:
            # Asked for again at an earlier moment: this entry is of the past.
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def wake(self, now: float) -> list[K]:
        """Want every key worked on that is due at `now`; those for which this is news."""
        woken = []
        while (moment := self.next_moment()) is not None and moment <= now:
            _, _, key = heapq.heappop(self._heap)
            del self._when[key]
            if self.add(key):
                woken.append(key)
        return woken

    def take(self) -> K | None:
        """The key that is ready the longest; it is being worked on until `done`. None if none is ready."""
        if not self._ready:
            return None
        key = self._ready.popleft()
        self._wanted.discard(key)
        self._working.add(key)
        return key

    def done(self, key: K) -> bool:
        """Work on `key` is over; whether it is ready at once, because it was added meanwhile."""
        self._working.discard(key)
        again = key in self._wanted
        if again:
            self._ready.append(key)
        return again
