"""What to do about one digest now: stage it, wait, or nothing. Pure; the controller acts on it.

A digest, not a cache, is the unit: however many caches and namespaces share one, it is pulled once. Pods that
wait go before jitter, but not before backoff: a registry that is down is not asked once per pod.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from gkm.agent.fitness import Fitness
from gkm.agent.grants import Source, eager_here, newest
from gkm.api.grant import GKMGrant
from gkm.base.backoff import Backoff

RETRY = Backoff(first=1.0, factor=2.0, longest=60.0, jitter=0.5)
"""Between attempts to stage one digest."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A digest that belongs on this node."""

    digest: str
    sources: tuple[Source, ...]
    """Where it can be pulled from, in a fixed order; attempts take turns."""
    bytes: int | None
    demanded: bool
    """Whether a pod waits for it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Attempts in a row that failed."""

    count: int
    at: float
    """When the last one ended, on the clock of `now`."""
    pause: float
    """Seconds to wait after it."""
    sources: tuple[Source, ...]
    """What was wished for then: a wish that changed is tried at once."""


class Action(Enum):
    """What to do about a digest."""

    NOTHING = "nothing"
    STAGE = "stage"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Decision:
    """`action`, and for WAIT how many seconds."""

    action: Action
    seconds: float = 0.0


def wish_for(
    digest: str,
    grants: Iterable[GKMGrant],
    *,
    judge: Callable[[GKMGrant], Fitness],
    node_labels: Mapping[str, str],
    demanded: Collection[str],
) -> Wish | None:
    """Why `digest` belongs on this node; None where it does not.

    A grant whose first digest it is wants it if the verdict allows, and the node is to have it eagerly or a pod
    asked for it. `demanded` holds UIDs of caches that pods asked for.
    """
    wanting = [
        grant
        for grant in grants
        if newest(grant) == digest and belongs_here(grant, judge, node_labels, demanded)
    ]
    if not wanting:
        return None
    sources = {Source(grant.spec.image or "", grant.spec.pull_secret) for grant in wanting}
    sizes = [grant.spec.bytes for grant in wanting if grant.spec.bytes is not None]
    return Wish(
        digest=digest,
        sources=tuple(sorted(sources, key=lambda s: (s.image, s.pull_secret or ""))),
        bytes=max(sizes, default=None),
        demanded=any(grant.spec.cache.uid in demanded for grant in wanting),
    )


def belongs_here(
    grant: GKMGrant,
    judge: Callable[[GKMGrant], Fitness],
    node_labels: Mapping[str, str],
    demanded: Collection[str],
) -> bool:
    """Whether this node stages the grant's first digest: asked for by a pod or eager here, and no misfit."""
    wanted = grant.spec.cache.uid in demanded or eager_here(grant, node_labels)
    return wanted and judge(grant).fits


def decide(
    wish: Wish | None, *, staged: bool, failure: Failure | None, eager_from: float, now: float
) -> Decision:
    """What to do about a digest at `now`.

    `eager_from`: the moment before which it is not staged without a pod that waits, so that the nodes of a
    cluster do not all ask the registry in the moment of the grant.
    """
    if wish is None or staged:
        return Decision(Action.NOTHING)
    if failure is not None and failure.sources == wish.sources:
        start = failure.at + failure.pause
    else:
        start = now if wish.demanded else eager_from
    return Decision(Action.STAGE) if start <= now else Decision(Action.WAIT, start - now)


def after_failure(wish: Wish, before: Failure | None, now: float, backoff: Backoff = RETRY) -> Failure:
    """What is remembered of an attempt that failed at `now`."""
    count = before.count + 1 if before is not None and before.sources == wish.sources else 1
    return Failure(count, now, backoff.delay(count), wish.sources)


def source_of_attempt(wish: Wish, failure: Failure | None) -> Source:
    """Where the next attempt pulls from."""
    return wish.sources[(failure.count if failure is not None else 0) % len(wish.sources)]
