"""When a cache is resolved: once per generation, again at its interval, after failures later and later."""

import pytest

from gkm.api.meta import ConditionStatus
from gkm.base.backoff import Backoff
from gkm.images.errors import InvalidReferenceError
from gkm.operator.attempts import Attempt, Failed, Judged, begun, finished, seconds_until_due
from gkm.operator.resolution import registry_reference, tree_bytes
from gkm.trust.gate import Judgement
from support.cache_facts import A, resolution

BACKOFF = Backoff(first=1, longest=8, jitter=0)
GOOD = Judged(resolution(A), Judgement(True, ConditionStatus.UNKNOWN, "NotConfigured", ""))
BAD = Failed("Unavailable", "down")


def test_a_cache_is_resolved_once_per_generation() -> None:
    assert seconds_until_due(None, 1, None, 0) == 0
    done = finished(begun(None, 1), GOOD, 10, BACKOFF)
    assert seconds_until_due(done, 1, None, 99) is None
    assert seconds_until_due(done, 2, None, 99) == 0


def test_an_interval_counts_from_the_last_answer() -> None:
    done = finished(begun(None, 1), GOOD, 10, BACKOFF)
    assert seconds_until_due(done, 1, 60, 30) == 40
    assert seconds_until_due(done, 1, 60, 75) == 0


def test_failures_wait_longer_and_longer_and_a_success_forgets_them() -> None:
    attempt: Attempt | None = None
    waits = []
    for _ in range(5):
        attempt = finished(begun(attempt, 1), BAD, 0, BACKOFF)
        waits.append(seconds_until_due(attempt, 1, None, 0))
    assert waits == [1, 2, 4, 8, 8]
    assert attempt is not None
    done = finished(begun(attempt, 1), GOOD, 0, BACKOFF)
    assert finished(begun(done, 1), BAD, 0, BACKOFF).wait == 1


def test_another_generation_starts_anew() -> None:
    attempt = finished(begun(None, 1), BAD, 0, BACKOFF)
    assert begun(attempt, 2) == Attempt(2, running=True)


def test_one_attempt_runs_at_a_time_and_the_last_outcome_stands_meanwhile() -> None:
    running = begun(finished(begun(None, 1), BAD, 0, BACKOFF), 1)
    assert seconds_until_due(running, 1, None, 99) is None
    assert seconds_until_due(running, 2, None, 99) is None
    assert running.outcome == BAD


def test_sizes_are_summed_over_formats_and_nonsense_is_no_size() -> None:
    label = "cache.{}.image/cache-size-bytes"
    assert tree_bytes({label.format("triton"): "5", label.format("vllm"): "7", "size": "9"}) == 12
    assert tree_bytes({label.format("triton"): "-5"}) is None
    assert tree_bytes({label.format("triton"): "9" * 19}) is None
    assert tree_bytes({}) is None


@pytest.mark.parametrize("image", ["oci:/etc", "no-host", "https://registry.test/x"])
def test_only_images_in_a_registry_are_resolved(image: str) -> None:
    with pytest.raises(InvalidReferenceError):
        registry_reference(image)
