"""The definitions of the five kinds: which struct each is, and under which names it is served."""

from typing import Literal

import msgspec

from gkm.api.cache import ClusterGKMCache, GKMCache
from gkm.api.constraints import Rule
from gkm.api.grant import NAMED_AFTER_CACHE, GKMGrant
from gkm.api.meta import Object
from gkm.api.node import ClusterGKMCacheNode, GKMCacheNode
from gkm.api.wire import GROUP

CATEGORY = "gkm"
"""`kubectl get gkm` lists all kinds."""


class Column(msgspec.Struct, frozen=True):
    """One column of `kubectl get`."""

    name: str
    path: str
    """JSONPath below the object."""
    description: str
    type: Literal["string", "integer", "date"] = "string"
    wide: bool = False
    """Shown only with `-o wide`."""


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of custom resource, as its CRD defines it."""

    struct: type[Object]
    """Its wire type; the class's name is the kind."""
    short_name: str
    namespaced: bool
    columns: tuple[Column, ...]
    rules: tuple[Rule, ...] = ()
    """CEL rules of the whole object."""

    @property
    def kind(self) -> str:
        """``GKMCache``."""
        return self.struct.__name__

    @property
    def singular(self) -> str:
        """``gkmcache``."""
        return self.kind.lower()

    @property
    def plural(self) -> str:
        """``gkmcaches``, as it stands in URLs and RBAC rules."""
        return self.singular + "s"

    @property
    def crd_name(self) -> str:
        """``gkmcaches.gkm.io``."""
        return f"{self.plural}.{GROUP}"

    @property
    def has_status(self) -> bool:
        """Whether it has a status, which is then a subresource with rights of its own."""
        return "status" in self.struct.__struct_fields__


_AGE = Column("Age", ".metadata.creationTimestamp", "How long ago it was made", "date")
_IN_USE = Column("Node-In-Use", ".status.counts.nodeInUseCnt", "Nodes with pods that use it", "integer")
_NOT_IN_USE = Column(
    "Node-Not-In-Use", ".status.counts.nodeNotInUseCnt", "Nodes that have it staged, unused", "integer"
)
_NODE_ERROR = Column("Node-Error", ".status.counts.nodeErrorCnt", "Nodes where staging failed", "integer")
_RUNNING = Column("Pod-Running", ".status.counts.podRunningCnt", "Pods that have it mounted", "integer")
_OUTDATED = Column("Pod-Outdated", ".status.counts.podOutdatedCnt", "Pods on an older digest", "integer")
_DELETING = Column(
    "Pod-Deleting", ".status.counts.podDeletingCnt", "Pods that hold up its deletion", "integer"
)

_CACHE_COLUMNS = (
    _AGE,
    Column("Status", ".status.phase", "The state in one word"),
    Column("Nodes", ".status.counts.nodeCnt", "Nodes that report it", "integer"),
    _IN_USE,
    _NOT_IN_USE,
    _NODE_ERROR,
    _RUNNING,
    _OUTDATED,
    Column("Digest", ".status.resolvedDigest", "The digest that pods get", wide=True),
    Column("Delivery", ".status.delivery", "How pods get it", wide=True),
)
_NODE_COLUMNS = (_IN_USE, _NOT_IN_USE, _NODE_ERROR, _RUNNING, _DELETING, _OUTDATED, _AGE)

GKM_CACHE = Definition(struct=GKMCache, short_name="gkmc", namespaced=True, columns=_CACHE_COLUMNS)
CLUSTER_GKM_CACHE = Definition(
    struct=ClusterGKMCache, short_name="cgkmc", namespaced=False, columns=_CACHE_COLUMNS
)
GKM_CACHE_NODE = Definition(struct=GKMCacheNode, short_name="gkmcn", namespaced=True, columns=_NODE_COLUMNS)
CLUSTER_GKM_CACHE_NODE = Definition(
    struct=ClusterGKMCacheNode, short_name="cgkmcn", namespaced=False, columns=_NODE_COLUMNS
)
GKM_GRANT = Definition(
    struct=GKMGrant,
    short_name="gkmg",
    namespaced=False,
    rules=(NAMED_AFTER_CACHE,),
    columns=(
        Column("Kind", ".spec.cache.kind", "The kind of cache it is for"),
        Column("Cache-Namespace", ".spec.cache.namespace", "The cache's namespace"),
        Column("Cache", ".spec.cache.name", "The cache's name"),
        Column("Digest", ".spec.digests[0]", "The digest that nodes stage"),
        _AGE,
        Column("Staging", ".spec.staging", "When nodes stage it", wide=True),
        Column(
            "Policy-Generation",
            ".spec.policyGeneration",
            "Which trust policy allowed it",
            "integer",
            wide=True,
        ),
    ),
)

DEFINITIONS = (GKM_CACHE, CLUSTER_GKM_CACHE, GKM_CACHE_NODE, CLUSTER_GKM_CACHE_NODE, GKM_GRANT)
