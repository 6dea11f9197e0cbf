"""When to resolve: once per generation, again at an interval where one is set, and after a failure later and
later.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

from gkm.base.backoff import Backoff
from gkm.base.errors import GKMError
from gkm.operator.resolution import Resolution
from gkm.trust.gate import Judgement

_LONGEST_MESSAGE = 1024


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be found out for one cache."""

    generation: int
    image: str
    namespace: str | None
    """The cache's namespace, for the gate; None for a ClusterGKMCache."""
    credentials: bytes | None = None
    """A ``.dockerconfigjson`` for the registry; None: anonymous."""
    known: Resolution | None = None
    """What was resolved for this generation by an earlier process: only the gate is asked."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The image was resolved, and the gate said what it thinks of the digest."""

    resolution: Resolution
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class Failed:
    """It could not be found out."""

    reason: str
    message: str

    @classmethod
    def by(cls, error: GKMError) -> "Failed":
        """The failure that `error` is; of a message that a registry made long, the beginning."""
        return cls(error.reason, str(error)[:_LONGEST_MESSAGE])


Outcome: TypeAlias = Judged | Failed


@dataclass(frozen=True, slots=True)
class Attempt:
    """The last try for one cache."""

    generation: int
    outcome: Outcome | None = None
    """How it ended; while it runs, how the one before it did, if that was for the same generation."""
    running: bool = False
    """Whether the registry or the gate is being asked."""
    failures: int = 0
    """In a row."""
    wait: float = 0.0
    """After a failure: seconds until the next try."""
    ended: float = 0.0
    """When, on the clock that `seconds_until_due` is given."""


def seconds_until_due(
    attempt: Attempt | None, generation: int, refresh: int | None, now: float
) -> float | None:
    """Seconds until the cache is to be resolved again; 0: now; None: not before something changes."""
    if attempt is None:
        return 0.0
    if attempt.running:
        # One at a time; its end wakes the cache, whose generation is looked at again then.
        return None
    if attempt.generation != generation:
        return 0.0
    if isinstance(attempt.outcome, Failed):
        return max(0.0, attempt.ended + attempt.wait - now)
    return None if refresh is None else max(0.0, attempt.ended + refresh - now)


def begun(before: Attempt | None, generation: int) -> Attempt:
    """A new attempt for `generation`, after `before`."""
    if before is None or before.generation != generation:
        return Attempt(generation, running=True)
    return replace(before, running=True)


def finished(attempt: Attempt, outcome: Outcome, now: float, backoff: Backoff) -> Attempt:
    """`attempt`, with how it ended."""
    failures = 0 if isinstance(outcome, Judged) else attempt.failures + 1
    return Attempt(
        attempt.generation,
        outcome,
        failures=failures,
        wait=backoff.delay(failures) if failures else 0.0,
        ended=now,
    )
