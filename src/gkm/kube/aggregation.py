"""Which events are sent, and which are one with an earlier one: pure, time is handed in.

A cluster keeps events in etcd for an hour, and a controller that tells the same thing at every retry fills
it. So the same event again is a series (events.k8s.io/v1 `series`): it is counted here, and the count is sent
at most every `refresh` seconds. And of one object at most a few different events are told, then one every few
minutes (client-go's spam filter).
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from gkm.kube.bucket import TokenBucket

E = TypeVar("E", bound=Hashable)


@dataclass(frozen=True, slots=True)
class AggregationTiming:
    """`refresh`: seconds between two reports of a series. `forget`: seconds after which the same event is a
    new one. `rate` and `burst` (events per second, events) limit what is told of one object. `most`: how many
    different events, and objects, are remembered."""

    refresh: float = 60.0
    forget: float = 360.0
    rate: float = 1 / 300
    burst: float = 25.0
    most: int = 4096


@dataclass(frozen=True, slots=True)
class Report:
    """What to send: the event called `name`, which happened `count` times so far. With 1 it is a new one."""

    name: str
    count: int


@dataclass(slots=True)
class _Series:
    """An event that was told: its name, how often and when last it happened, when it was last reported."""

    name: str
    count: int
    last: float
    reported: float


class Aggregator(Generic[E]):
    """Decides what becomes of each event. `E` is what makes two events the same."""

    def __init__(self, timing: AggregationTiming | None = None) -> None:
        self._timing = timing or AggregationTiming()
        self._series: OrderedDict[E, _Series] = OrderedDict()
        self._buckets: OrderedDict[Hashable, TokenBucket] = OrderedDict()

    def happened(self, event: E, about: Hashable, name: str, now: float) -> Report | None:
        """`event` happened, about an object; `name` is for a new one. What to send, if anything."""
        known = self._series.get(event)
        if known is not None and now - known.last <= self._timing.forget:
            known.count += 1
            known.last = now
            self._series.move_to_end(event)
            if now - known.reported < self._timing.refresh:
                return None
            known.reported = now
            return Report(known.name, known.count)
        if not self._may_tell(about, now):
            return None
        self._series[event] = _Series(name, 1, now, now)
        self._series.move_to_end(event)
        if len(self._series) > self._timing.most:
            self._series.popitem(last=False)
        return Report(name, 1)

    def forget(self, event: E) -> None:
        """The server no longer has `event`: the next one is new."""
        self._series.pop(event, None)

    def _may_tell(self, about: Hashable, now: float) -> bool:
        bucket = self._buckets.get(about)
        if bucket is None:
            bucket = self._buckets[about] = TokenBucket(self._timing.rate, self._timing.burst)
            if len(self._buckets) > self._timing.most:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(about)
        return bucket.try_take(now)
