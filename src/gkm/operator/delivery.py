"""What delivery to all namespaces of a cache comes to: the condition ``Delivered``, and ``status.pvcStatus``.

The place of ``SharedPVC`` and ``NodePVC`` is here and in `gkm.operator.volumes`; until they exist, a cache
that asks for one is delivered by CSI and says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gkm.api.cache import CacheSpec
from gkm.api.meta import ConditionStatus
from gkm.api.names import Reason
from gkm.api.status import PVCStatus
from gkm.api.values import AccessMode, Delivery, PVCOwner
from gkm.operator.volumes import Stage, volume_name

_NAMED = 5
"""How many namespaces a message names."""

_FOREIGN = (
    "a PVC of the cache's name that is not this cache's exists in {}; "
    "rename or delete it, or use inline CSI there"
)
_OBSTACLES = {
    Stage.FOREIGN: (Reason.FOREIGN_CLAIM, _FOREIGN),
    Stage.NO_NAMESPACE: (Reason.NO_NAMESPACE, "there is no namespace {}"),
    Stage.TERMINATING: (Reason.NAMESPACE_TERMINATING, "being deleted: namespace {}"),
    Stage.ON_THE_WAY: (Reason.DELIVERING, "PersistentVolumes and PVCs are not all bound yet: {}"),
}
"""What a message says of namespaces at a stage, the hardest obstacle first."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """How far delivery is, by namespace."""

    stages: Mapping[str, Stage]
    """Of every namespace that is to have the cache."""
    every_namespace: bool = False
    """No namespaces are listed: inline CSI from everywhere."""
    failures: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """What the API server refused, by namespace: reason and message."""


def asked_for(spec: CacheSpec) -> Delivery:
    """The delivery that the spec means."""
    if spec.delivery is not None:
        return spec.delivery
    shared = AccessMode.READ_ONLY_MANY in (spec.access_modes or ())
    return Delivery.SHARED_PVC if shared else Delivery.CSI


def chosen(spec: CacheSpec) -> Delivery:
    """The delivery that the cache gets."""
    del spec
    return Delivery.CSI


def condition(spec: CacheSpec, delivered: Delivered) -> tuple[ConditionStatus, Reason | str, str]:
    """Status, reason and message of the condition ``Delivered``; of several obstacles the hardest is told."""
    if delivered.failures:
        namespace, (reason, message) = min(delivered.failures.items())
        return ConditionStatus.FALSE, reason, f"namespace {namespace}: {message}"
    for stage, (reason, text) in _OBSTACLES.items():
        if found := sorted(name for name, at in delivered.stages.items() if at is stage):
            return ConditionStatus.FALSE, reason, text.format(_listed(found))
    fallback = _fallback(spec)
    if delivered.every_namespace:
        text = "no workloadNamespaces: pods of every namespace use it by inline CSI, and there are no PVCs"
        return ConditionStatus.TRUE, Reason.EVERY_NAMESPACE, f"{text}; {fallback}" if fallback else text
    if fallback:
        return ConditionStatus.TRUE, Reason.DELIVERED_BY_CSI, fallback
    return ConditionStatus.TRUE, Reason.DELIVERED, "every workload namespace has a PVC named after the cache"


def pvc_status(cache: str, uid: str, delivered: Delivered) -> dict[str, PVCStatus] | None:
    """The volumes that exist or are on their way, by namespace; None where there are none."""
    found = {
        namespace: PVCStatus(pv_name=volume_name(uid, namespace), pvc_name=cache, pvc_owner=PVCOwner.OPERATOR)
        for namespace, stage in sorted(delivered.stages.items())
        if stage in (Stage.BOUND, Stage.ON_THE_WAY)
    }
    return found or None


def _fallback(spec: CacheSpec) -> str:
    asked = asked_for(spec)
    if asked == chosen(spec):
        return ""
    cause = "spec.delivery" if spec.delivery is not None else "spec.accessModes"
    return f"{cause} asks for {asked.value}, which this release does not have: delivered by CSI instead"


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
