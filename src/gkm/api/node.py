"""`GKMCacheNode` and `ClusterGKMCacheNode`: what one node has of its caches, written by its agent.

Named after the node. A report exists only where a cache is staged, used or failing on that node.
"""

from datetime import datetime
from typing import Annotated

import msgspec

from gkm.api.constraints import (
    CAMEL_WORD,
    DNS_LABEL,
    DNS_SUBDOMAIN,
    between,
    in_order,
    int64,
    keyed,
    never,
    pattern,
)
from gkm.api.meta import Object
from gkm.api.status import Counts, LastError, PVCStatus
from gkm.api.values import Observation, StageState, Verdict
from gkm.api.wire import Wire


class DetectedGPUs(Wire, frozen=True, kw_only=True):
    """GPUs of one type and driver on this node."""

    gpu_type: str | None = None
    """The product name; ``None Detected`` on a node without GPUs."""
    driver_version: str | None = None
    """The version of the GPUs' driver."""
    ids: Annotated[tuple[int, ...] | None, in_order(at_most=1024)] = None
    """The indexes of these GPUs on the node, counted from 0 across all types."""


class GPUVerdict(Wire, frozen=True, kw_only=True):
    """Whether the cache fits one GPU of the node."""

    id: int
    """The GPU's index on the node."""
    verdict: Verdict
    """``Compatible``, ``Incompatible`` or ``Unknown``."""
    reason: Annotated[str | None, pattern(CAMEL_WORD, 1024)] = None
    """What decided, where the verdict is not Compatible: ``ArchMismatch``, ``BackendMismatch``, …"""


class PodUse(Wire, frozen=True, kw_only=True):
    """What one pod made of the cache. Hits and misses are measured, or absent."""

    uid: Annotated[str, pattern("^[-A-Za-z0-9]+$", 128)]
    """The pod's UID."""
    namespace: Annotated[str | None, pattern(DNS_LABEL, 63)] = None
    """The pod's namespace."""
    name: Annotated[str | None, pattern(DNS_SUBDOMAIN, 253)] = None
    """The pod's name."""
    hits: Annotated[int | None, int64(), between(0)] = None
    """Entries that the pod used; absent while nothing was observed."""
    misses: Annotated[int | None, int64(), between(0)] = None
    """Entries that the pod had to compile although the cache was mounted; absent while nothing was
    observed."""
    cold: bool | None = None
    """Whether the pod started without the cache. Its compilations are no misses."""
    observation: Observation | None = None
    """How much was seen: ``complete``, ``partial(Overflow)``, ``partial(Restarted)`` or ``none``."""
    pod_namespace: Annotated[str | None, pattern(DNS_LABEL, 63)] = None
    """The same as ``namespace``, for readers of the upstream operator's reports."""
    pod_name: Annotated[str | None, pattern(DNS_SUBDOMAIN, 253)] = None
    """The same as ``name``, for readers of the upstream operator's reports."""
    volume_id: str | None = None
    """The CSI volume ID of the mount."""


_UNSEEN = {"observation": {"enum": [Observation.NONE.value]}}
PodUseField = Annotated[PodUse, never(hits={}, **_UNSEEN), never(misses={}, **_UNSEEN)]
"""A zero is not published for what was not seen. Not CEL: below two maps its cost estimate has no bound."""


class DigestReport(Wire, frozen=True, kw_only=True):
    """One digest of one cache on this node."""

    state: StageState | None = None
    """How far staging is."""
    bytes: Annotated[int | None, int64(), between(0)] = None
    """Bytes of the sealed tree on disk; trees are shared by all caches with this digest."""
    gpus: Annotated[tuple[GPUVerdict, ...] | None, keyed("id", at_most=1024)] = None
    """The verdict for each GPU of the node."""
    compatible_gpus: Annotated[tuple[int, ...] | None, in_order(at_most=1024)] = msgspec.field(
        default=None, name="compatibleGPUs"
    )
    """Indexes of the GPUs whose verdict is Compatible."""
    incompatible_gpus: Annotated[tuple[int, ...] | None, in_order(at_most=1024)] = msgspec.field(
        default=None, name="incompatibleGPUs"
    )
    """Indexes of the GPUs whose verdict is Incompatible."""
    pods: Annotated[tuple[PodUseField, ...] | None, keyed("uid")] = None
    """The pods of this node that have the digest mounted, or had it while it was counted."""
    pvc_status: dict[str, PVCStatus] | None = None
    """With NodePVC: this node's volumes, by workload namespace."""
    volume_size: Annotated[int | None, int64(), between(0)] = None
    """The same as ``bytes``, for readers of the upstream operator's reports."""
    last_error: LastError | None = None
    """Why staging failed last, while it has not succeeded since."""
    last_updated: datetime
    """When this entry last changed."""


class NodeStatus(Wire, frozen=True, kw_only=True):
    """What one node has."""

    node_name: Annotated[str, pattern(DNS_SUBDOMAIN, 253)]
    """The node; the report has the same name."""
    counts: Counts
    """This node's part of the caches' counts, all caches of the report together."""
    gpus: Annotated[tuple[DetectedGPUs, ...] | None, in_order(at_most=256)] = None
    """The node's GPUs, grouped by type and driver."""
    caches: dict[str, dict[str, DigestReport]] | None = None
    """What the node has, by the cache's name and then by digest (``sha256:…``)."""


class GKMCacheNode(Object, frozen=True, kw_only=True):
    """One node's report on the GKMCaches of one namespace."""

    kind: str = msgspec.field(default_factory=lambda: "GKMCacheNode")
    status: NodeStatus | None = None
    """What the node has."""


class ClusterGKMCacheNode(Object, frozen=True, kw_only=True):
    """One node's report on the ClusterGKMCaches."""

    kind: str = msgspec.field(default_factory=lambda: "ClusterGKMCacheNode")
    status: NodeStatus | None = None
    """What the node has."""
