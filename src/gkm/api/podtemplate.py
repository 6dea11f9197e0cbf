"""`spec.podTemplate`: what a user may say about the pod of an extraction Job.

Not a whole PodTemplateSpec: containers, volumes and the like are GKM's, and a field that is accepted and then
ignored would mislead. Affinity is handed on unread, so its inside is opaque here; Kubernetes judges it, and
the tolerations' words, when the Job is made.
"""

from typing import Annotated, Any

from gkm.api.constraints import DNS_SUBDOMAIN, LABEL_VALUE, in_order, int64, opaque, pattern
from gkm.api.wire import Wire

LabelValue = Annotated[str, pattern(LABEL_VALUE, 63)]


class Toleration(Wire, frozen=True, kw_only=True):
    """Lets the pod run on nodes with a matching taint; the fields are core/v1's."""

    key: str | None = None
    """The taint's key; absent, with operator ``Exists``: every taint."""
    operator: str | None = None
    """``Equal`` (where absent), ``Exists``, or another operator that the cluster's Kubernetes knows."""
    value: str | None = None
    """The taint's value; absent with ``Exists``."""
    effect: str | None = None
    """``NoSchedule``, ``PreferNoSchedule`` or ``NoExecute``; absent: every effect."""
    toleration_seconds: Annotated[int | None, int64()] = None
    """With ``NoExecute``: how many seconds the pod stays on a node that gets the taint; absent: for ever."""


class Affinity(Wire, frozen=True, kw_only=True):
    """Scheduling constraints as core/v1 has them, handed on as they are."""

    node_affinity: Annotated[dict[str, Any] | None, opaque()] = None
    """Which nodes are required or preferred; core/v1 NodeAffinity."""
    pod_affinity: Annotated[dict[str, Any] | None, opaque()] = None
    """Beside which pods to run; core/v1 PodAffinity."""
    pod_anti_affinity: Annotated[dict[str, Any] | None, opaque()] = None
    """Beside which pods not to run; core/v1 PodAntiAffinity."""


class PodTemplateMeta(Wire, frozen=True, kw_only=True):
    """Labels and annotations of the pod."""

    labels: dict[str, LabelValue] | None = None
    """Labels added to the extraction Job's pod."""
    annotations: dict[str, str] | None = None
    """Annotations added to the extraction Job's pod."""


class PodTemplateSpec(Wire, frozen=True, kw_only=True):
    """Where the pod may run, and how important it is."""

    node_selector: dict[str, LabelValue] | None = None
    """Labels a node must have: for the extraction Job's pod, beside the node it is made for, and for
    staging."""
    tolerations: Annotated[tuple[Toleration, ...] | None, in_order()] = None
    """Taints that the extraction Job's pod tolerates."""
    affinity: Affinity | None = None
    """Scheduling constraints of the extraction Job's pod."""
    priority_class_name: Annotated[str | None, pattern(f"({DNS_SUBDOMAIN})|(^$)", 253)] = None
    """The PriorityClass of the extraction Job's pod."""


class PodTemplate(Wire, frozen=True, kw_only=True):
    """Changes to the pod of an extraction Job."""

    metadata: PodTemplateMeta | None = None
    """Labels and annotations of the pod."""
    spec: PodTemplateSpec | None = None
    """Where the pod may run."""
