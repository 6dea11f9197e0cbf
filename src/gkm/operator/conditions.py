"""The four conditions of a cache, from facts. Messages hold no counts: a count is no transition."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from gkm.api.grant import GKMGrant
from gkm.api.meta import Condition, ConditionStatus
from gkm.api.names import ConditionType, Reason
from gkm.api.values import Staging
from gkm.operator import delivery
from gkm.operator.attempts import Failed, Judged, Outcome
from gkm.operator.delivery import Delivered
from gkm.operator.grants import granted
from gkm.operator.objects import Cache
from gkm.operator.tally import Tally

_TRUE, _FALSE, _UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
_LONGEST_MESSAGE = 1024

Finding: TypeAlias = tuple[ConditionStatus, str, str]
"""Status, reason, message."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a cache's status is made of."""

    cache: Cache
    grant: GKMGrant | None
    """As it stands after this reconcile."""
    outcome: Outcome | None
    """How the last resolution of this generation ended; None: it has not."""
    tally: Tally
    delivered: Delivered
    candidates: bool
    """Whether any node of the cluster matches the cache's node selector."""
    may_answer: bool
    """Whether nodes still have time to report the newest digest."""

    @property
    def digest(self) -> str | None:
        """The digest that nodes are to have."""
        return self.grant.spec.digests[0] if self.grant and self.grant.spec.digests else None

    @property
    def deleting(self) -> bool:
        """Whether the cache is being deleted."""
        return self.cache.metadata.deletion_timestamp is not None


def conditions(facts: Facts, now: datetime) -> tuple[Condition, ...]:
    """All conditions, each with the time since when its status is what it is."""
    status = facts.cache.status
    before = {condition.type: condition for condition in (status.conditions if status else None) or ()}
    found = {
        ConditionType.RESOLVED: resolved(facts, before.get(ConditionType.RESOLVED)),
        ConditionType.VERIFIED: verified(facts, before.get(ConditionType.VERIFIED)),
        ConditionType.DELIVERED: _delivered(facts),
        ConditionType.READY: ready(facts),
    }
    return tuple(
        Condition(
            type=kind.value,
            status=finding[0],
            observed_generation=facts.cache.metadata.generation,
            last_transition_time=_since(before.get(kind), finding[0], now),
            reason=str(finding[1]),
            message=finding[2][:_LONGEST_MESSAGE],
        )
        for kind, finding in found.items()
    )


def resolved(facts: Facts, before: Condition | None) -> Finding:
    """Whether the image of this generation is known as a digest."""
    serves = f"; {facts.digest} still serves" if facts.digest else ""
    if isinstance(facts.outcome, Failed):
        return _FALSE, facts.outcome.reason, facts.outcome.message + serves
    if isinstance(facts.outcome, Judged):
        return _TRUE, Reason.RESOLVED, f"the image is {facts.outcome.resolution.image}"
    if before is not None and (
        facts.deleting or before.observed_generation == facts.cache.metadata.generation
    ):
        # What an earlier process found holds until this one has asked.
        return before.status, before.reason, before.message
    if known := granted(facts.grant, facts.cache.metadata.generation):
        return _TRUE, Reason.RESOLVED, f"the image is {known.image}"
    return _UNKNOWN, Reason.RESOLVING, "the registry is being asked" + serves


def verified(facts: Facts, before: Condition | None) -> Finding:
    """What the gate said of the newest candidate."""
    if isinstance(facts.outcome, Judged):
        judgement = facts.outcome.judgement
        return judgement.verified, judgement.reason, judgement.message
    if before is not None and (facts.digest or facts.outcome is None):
        # What the gate said of the digest that serves holds until it is asked again.
        return before.status, before.reason, before.message
    return _UNKNOWN, Reason.NOT_JUDGED, "there is no digest yet that could be verified"


def ready(facts: Facts) -> Finding:
    """Whether every node that should have the newest digest has it."""
    tally = facts.tally
    if facts.deleting:
        return (
            _FALSE,
            Reason.DELETING,
            "the cache is being deleted, and held until the last pod lets go of it",
        )
    if facts.digest is None:
        return (
            _FALSE,
            Reason.NOT_RESOLVED,
            "there is no digest that nodes may stage: see the other conditions",
        )
    if tally.counts.node_error_cnt:
        error = f": {tally.last_error.reason}: {tally.last_error.message}" if tally.last_error else ""
        return _FALSE, Reason.NODE_ERROR, f"staging fails on some nodes; their reports say why{error}"
    if tally.waiting:
        return _FALSE, Reason.STAGING, "some nodes are on their way"
    if tally.staged:
        return _TRUE, Reason.STAGED, "every node that should have the cache has it"
    if facts.cache.spec.staging == Staging.ON_DEMAND:
        return _TRUE, Reason.ON_DEMAND, "each node stages the cache at the first pod that asks for it"
    if not facts.candidates:
        return _FALSE, Reason.NO_COMPATIBLE_NODE, "no node has the labels of podTemplate.spec.nodeSelector"
    if facts.may_answer:
        return _FALSE, Reason.STAGING, "no node has reported the cache yet"
    return (
        _FALSE,
        Reason.NO_COMPATIBLE_NODE,
        ("no node stages the cache: none has a GPU that its targets fit, or no agent runs where one is"),
    )


def _delivered(facts: Facts) -> Finding:
    if facts.deleting:
        return _FALSE, Reason.DELETING, "PVCs and PersistentVolumes go when the last pod has let go"
    status, reason, message = delivery.condition(facts.cache.spec, facts.delivered)
    return status, str(reason), message


def _since(before: Condition | None, status: ConditionStatus, now: datetime) -> datetime:
    return before.last_transition_time if before is not None and before.status == status else now
