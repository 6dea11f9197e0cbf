"""Events about a cache, from two statuses: what people who run ``kubectl describe`` want to have happened."""

from typing import NamedTuple

from gkm.api.meta import ConditionStatus
from gkm.api.names import ConditionType, EventReason, Reason
from gkm.api.status import CacheStatus
from gkm.kube.events import Type
from gkm.operator.status import condition_of, is_deleting

_ON_THE_WAY = (Reason.RESOLVING, Reason.NOT_JUDGED, Reason.DELIVERING)


class Announcement(NamedTuple):
    """One Event."""

    type: Type
    reason: str
    note: str


def announcements(before: CacheStatus | None, after: CacheStatus) -> list[Announcement]:
    """What to tell about the step from `before` to `after`."""
    told: list[Announcement] = []
    if before is None or before.phase is None:
        told.append(Announcement(Type.NORMAL, EventReason.CREATED, "the cache is known to the operator"))
    if is_deleting(after) and not is_deleting(before):
        told.append(Announcement(Type.NORMAL, EventReason.DELETING, "the cache is being deleted"))
        return told
    for kind in (ConditionType.RESOLVED, ConditionType.VERIFIED, ConditionType.DELIVERED):
        old, new = condition_of(before, kind), condition_of(after, kind)
        if new is None or (old is not None and old[:2] == new[:2]) or new[1] in _ON_THE_WAY:
            continue
        kind_of_event = Type.WARNING if new[0] == ConditionStatus.FALSE else Type.NORMAL
        told.append(Announcement(kind_of_event, new[1], new[2]))
    used = before is not None and before.counts.pod_running_cnt > 0
    uses = after.counts.pod_running_cnt > 0
    if uses and not used:
        told.append(Announcement(Type.NORMAL, EventReason.CACHE_USED, "a pod has the cache mounted"))
    if used and not uses:
        told.append(Announcement(Type.NORMAL, EventReason.CACHE_RELEASE, "no pod has the cache mounted"))
    return told
