"""What the operator and the agents report about a cache: counts, volumes, targets, errors."""

from datetime import datetime
from typing import Annotated

from gkm.api.constraints import (
    CAMEL_WORD,
    DIGEST,
    DIGEST_LENGTH,
    between,
    default,
    in_order,
    keyed,
    length,
    pattern,
)
from gkm.api.meta import Condition
from gkm.api.values import Delivery, Phase, PVCOwner
from gkm.api.wire import Wire


class Counts(Wire, frozen=True, kw_only=True):
    """How many nodes and pods have the cache. A node in none of the groups has nothing of it."""

    node_cnt: Annotated[int, between(0)]
    """Nodes that report the cache."""
    node_in_use_cnt: Annotated[int, between(0)]
    """Nodes with the cache staged and mounted in at least one pod."""
    node_not_in_use_cnt: Annotated[int, between(0)]
    """Nodes with the cache staged and no pod that uses it."""
    node_error_cnt: Annotated[int, between(0)]
    """Nodes where staging failed. Incompatible nodes are not among them."""
    pod_running_cnt: Annotated[int, between(0)]
    """Pods that have the cache mounted."""
    pod_deleting_cnt: Annotated[int, between(0)]
    """Pods that still have the cache mounted while it is being deleted."""
    pod_outdated_cnt: Annotated[int, between(0)]
    """Pods that have an older digest than ``status.resolvedDigest`` mounted."""


class PVCStatus(Wire, frozen=True, kw_only=True):
    """The volume that holds a cache for one workload namespace."""

    pv_name: str | None = None
    """The PersistentVolume."""
    pvc_name: str | None = None
    """The PersistentVolumeClaim, in the workload namespace."""
    job_name: str | None = None
    """The extraction Job that fills it."""
    pvc_owner: Annotated[PVCOwner | None, default(PVCOwner.UNKNOWN)] = None
    """Who makes and deletes them."""
    conditions: Annotated[tuple[Condition, ...] | None, keyed("type")] = None
    """The volume's state: one condition, whose type is a phase of ``status.phase``."""


class Target(Wire, frozen=True, kw_only=True):
    """What entries of a cache were compiled for."""

    backend: str
    """``cuda``, ``hip`` or ``cpu``."""
    arch: str
    """The GPU architecture: ``sm_90``, ``gfx942``."""
    warp_size: int
    """Threads of a warp or wavefront; 0 for cpu."""
    product: str | None = None
    """The GPU product, only where the cache's format is bound to it."""


class LastError(Wire, frozen=True, kw_only=True):
    """The last thing that went wrong and has not gone right since."""

    reason: Annotated[str, pattern(CAMEL_WORD, 1024)]
    """What failed, as one stable CamelCase word for programs."""
    message: Annotated[str, length(32768)]
    """What failed and what to do about it, for people."""
    time: datetime
    """When it failed last."""


class CacheStatus(Wire, frozen=True, kw_only=True):
    """What became of a cache. Written by the operator alone, and never proof to a node (see GKMGrant)."""

    observed_generation: Annotated[int | None, between(0)] = None
    """The ``metadata.generation`` that this status was computed from."""
    phase: Phase | None = None
    """The state in one word."""
    resolved_digest: Annotated[str | None, pattern(DIGEST, DIGEST_LENGTH)] = None
    """The newest digest that passed the gate: what nodes stage and pods get."""
    candidate_digest: Annotated[str | None, pattern(DIGEST, DIGEST_LENGTH)] = None
    """The digest that the image has now, while it is on its way or after it was refused; the older one still
    serves."""
    delivery: Delivery | None = None
    """How pods get the cache, chosen once."""
    targets: Annotated[tuple[Target, ...] | None, in_order(at_most=256)] = None
    """What the entries of the resolved digest were compiled for."""
    counts: Counts
    """Nodes and pods that have the cache."""
    conditions: Annotated[tuple[Condition, ...] | None, keyed("type")] = None
    """``Resolved``, ``Verified``, ``Delivered`` and ``Ready``; Ready is true when every node that should
    have the cache has it."""
    last_error: LastError | None = None
    """The last thing that went wrong and has not gone right since."""
    pvc_owner: Annotated[PVCOwner | None, default(PVCOwner.UNKNOWN)] = None
    """Who makes PVCs and extraction Jobs; Unknown until it is decided, and where no PVC holds the cache."""
    pvc_status: dict[str, PVCStatus] | None = None
    """The volumes that hold the cache, by workload namespace."""
    last_updated: datetime | None = None
    """When this status last changed."""
