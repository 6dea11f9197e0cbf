"""The same event is a series; of one object only so much is told; memory is bounded."""

from hypothesis import given
from hypothesis import strategies as st

from gkm.kube.aggregation import AggregationTiming, Aggregator

TIMING = AggregationTiming(refresh=60, forget=360, rate=1 / 300, burst=3, most=10)


def test_the_same_event_is_told_once_and_then_counted() -> None:
    aggregator: Aggregator[str] = Aggregator(TIMING)
    first = aggregator.happened("a", "pod", "a.1", 0.0)
    assert first is not None
    assert (first.name, first.count) == ("a.1", 1)
    assert [aggregator.happened("a", "pod", "a.2", float(t)) for t in range(1, 60)] == [None] * 59
    again = aggregator.happened("a", "pod", "a.3", 60.0)
    assert again is not None
    assert (again.name, again.count) == ("a.1", 61)


def test_after_a_pause_it_is_a_new_event() -> None:
    aggregator: Aggregator[str] = Aggregator(TIMING)
    aggregator.happened("a", "pod", "a.1", 0.0)
    later = aggregator.happened("a", "pod", "a.2", 361.0)
    assert later is not None
    assert (later.name, later.count) == ("a.2", 1)


def test_one_object_cannot_flood_and_does_not_silence_another() -> None:
    aggregator: Aggregator[int] = Aggregator(TIMING)
    told = [aggregator.happened(n, "noisy", str(n), 0.0) is not None for n in range(5)]
    assert told == [True, True, True, False, False]
    assert aggregator.happened(99, "quiet", "99", 0.0) is not None
    assert aggregator.happened(5, "noisy", "5", 299.0) is None
    assert aggregator.happened(6, "noisy", "6", 300.0) is not None


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30), st.floats(0, 100))))
def test_memory_is_bounded(story: list[tuple[int, int, float]]) -> None:
    aggregator: Aggregator[int] = Aggregator(TIMING)
    now = 0.0
    for event, about, later in story:
        now += later
        aggregator.happened(event, about, str(event), now)
    assert len(aggregator._series) <= TIMING.most
    assert len(aggregator._buckets) <= TIMING.most
