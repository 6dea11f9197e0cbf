"""The status of a cache, from facts; and whether it is worth a write now."""

from datetime import datetime
from typing import Any

import msgspec

from gkm.api.meta import ConditionStatus
from gkm.api.names import ConditionType
from gkm.api.status import CacheStatus, LastError
from gkm.api.values import Phase, PVCOwner
from gkm.kube.merge_patch import merge_patch
from gkm.operator import delivery
from gkm.operator.attempts import Judged
from gkm.operator.conditions import Facts, conditions
from gkm.operator.grants import failed
from gkm.operator.volumes import Stage

_COUNTED = frozenset({"counts", "phase"})
"""What may lag behind by `Settings.count_seconds`: counts, and the one word that is made of them."""


def status(facts: Facts, now: datetime) -> CacheStatus:
    """The status as it is to be, `lastUpdated` left as it was. `now` is in whole seconds."""
    cache, grant = facts.cache, facts.grant
    before = cache.status
    pvcs = delivery.pvc_status(cache.metadata.name or "", cache.metadata.uid or "", facts.delivered)
    return CacheStatus(
        observed_generation=cache.metadata.generation,
        phase=phase(facts),
        resolved_digest=facts.digest,
        candidate_digest=_candidate(facts),
        delivery=delivery.chosen(cache.spec),
        targets=grant.spec.targets if grant else None,
        counts=facts.tally.counts,
        conditions=conditions(facts, now),
        last_error=_last_error(facts, before, now),
        pvc_owner=PVCOwner.OPERATOR if pvcs else PVCOwner.UNKNOWN,
        pvc_status=pvcs,
        last_updated=before.last_updated if before else None,
    )


def phase(facts: Facts) -> Phase:
    """The state in one word: upstream's words, in upstream's order of precedence."""
    counts, stages = facts.tally.counts, facts.delivered.stages.values()
    gone = (Stage.NO_NAMESPACE, Stage.TERMINATING)
    for word, holds in (
        (Phase.DELETING, facts.deleting),
        (Phase.ERROR, counts.node_error_cnt > 0),
        (Phase.ERROR, facts.digest is None and failed(facts.outcome) is not None),
        (Phase.OUTDATED, counts.pod_outdated_cnt > 0),
        (Phase.RUNNING, counts.node_in_use_cnt > 0),
        (Phase.NO_NAMESPACE, bool(stages) and all(stage in gone for stage in stages)),
        (Phase.EXTRACTED, counts.node_not_in_use_cnt > 0),
        (Phase.DOWNLOADING, facts.tally.waiting > 0),
    ):
        if holds:
            return word
    return Phase.PENDING


def patch(before: CacheStatus | None, wanted: CacheStatus, now: datetime) -> tuple[dict[str, Any], bool]:
    """The merge patch from `before` to `wanted` (empty: nothing to write), and whether only counts differ."""
    changes = merge_patch(_plain(before), _plain(wanted))
    if not changes:
        return {}, False
    only_counts = changes.keys() <= _COUNTED
    return changes | {"lastUpdated": msgspec.to_builtins(now)}, only_counts


def is_deleting(phase_before: CacheStatus | None) -> bool:
    """Whether that status says already that the cache is being deleted."""
    return phase_before is not None and phase_before.phase == Phase.DELETING


def condition_of(found: CacheStatus | None, kind: ConditionType) -> tuple[ConditionStatus, str, str] | None:
    """Status, reason and message of one condition; None where the status has none such."""
    for condition in (found.conditions if found else None) or ():
        if condition.type == kind:
            return condition.status, condition.reason, condition.message
    return None


def _candidate(facts: Facts) -> str | None:
    """The digest that the image has now, where it is not the one that serves."""
    if not isinstance(facts.outcome, Judged):
        before = facts.cache.status
        return before.candidate_digest if before and _is_open(facts, before) else None
    digest = facts.outcome.resolution.digest
    return digest if digest != facts.digest else None


def _last_error(facts: Facts, before: CacheStatus | None, now: datetime) -> LastError | None:
    """What is wrong now, with the time at which it went wrong so; nodes' failures after our own."""
    failure = failed(facts.outcome)
    last = before.last_error if before else None
    if failure is None:
        return last if before and _is_open(facts, before) else facts.tally.last_error
    if last is not None and (last.reason, last.message) == (failure.reason, failure.message):
        return last
    return LastError(reason=failure.reason, message=failure.message, time=now)


def _is_open(facts: Facts, before: CacheStatus) -> bool:
    """Whether this process has yet to find out what `before` was told by an earlier one."""
    known = facts.deleting or facts.outcome is not None
    return not known and before.observed_generation == facts.cache.metadata.generation


def _plain(found: CacheStatus | None) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(found) if found else {}
    return plain
