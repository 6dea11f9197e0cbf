"""The two kinds of cache as one: everything in which a GKMCache and a ClusterGKMCache differ stands here.

A key tells which kind it is of: only namespaced objects have a namespace.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gkm.api.grant import CacheReference
from gkm.api.names import CSI_ATTRIBUTE_CACHE, CSI_ATTRIBUTE_NAMESPACE, Finalizer
from gkm.api.values import CacheKind
from gkm.kube.objects import Key, key_of
from gkm.kube.resources import Resource
from gkm.operator.objects import (
    CLUSTER_GKM_CACHE_NODES,
    CLUSTER_GKM_CACHES,
    GKM_CACHE_NODES,
    GKM_CACHES,
    Cache,
    Report,
    uid_of,
)


@dataclass(frozen=True, slots=True)
class Scope:
    """One kind of cache: its names, and where its objects live."""

    kind: CacheKind
    caches: Resource[Cache]
    reports: Resource[Report]
    finalizer: Finalizer


NAMESPACED = Scope(CacheKind.GKM_CACHE, GKM_CACHES, GKM_CACHE_NODES, Finalizer.GKM_CACHE)
CLUSTER = Scope(
    CacheKind.CLUSTER_GKM_CACHE, CLUSTER_GKM_CACHES, CLUSTER_GKM_CACHE_NODES, Finalizer.CLUSTER_GKM_CACHE
)


def scope_of(key: Key) -> Scope:
    """The kind of cache that `key` names."""
    return NAMESPACED if key.namespace else CLUSTER


def workload_namespaces(cache: Cache) -> tuple[str, ...] | None:
    """The namespaces whose pods may use the cache, sorted; None: every namespace, by inline CSI alone."""
    if cache.metadata.namespace:
        return (cache.metadata.namespace,)
    return tuple(sorted(cache.spec.workload_namespaces or ())) or None


def reference(cache: Cache) -> CacheReference:
    """How a grant names the cache."""
    key = key_of(cache)
    return CacheReference(
        kind=scope_of(key).kind, namespace=key.namespace or None, name=key.name, uid=uid_of(cache)
    )


def granted_key(granted: CacheReference) -> Key:
    """The key of the cache that a grant is for."""
    return Key(granted.namespace or "", granted.name)


def volume_attributes(key: Key) -> dict[str, str]:
    """How a volume names the cache to the CSI driver, the same inline and in a PersistentVolume."""
    attributes = {CSI_ATTRIBUTE_CACHE: key.name}
    return attributes | {CSI_ATTRIBUTE_NAMESPACE: key.namespace} if key.namespace else attributes


def attributed_key(attributes: Mapping[str, str]) -> Key | None:
    """The key of the cache that a volume's attributes name; None where they name none."""
    name = attributes.get(CSI_ATTRIBUTE_CACHE)
    return Key(attributes.get(CSI_ATTRIBUTE_NAMESPACE, ""), name) if name else None
