"""Caches, reports and nodes as the operator's pure functions take them."""

from datetime import UTC, datetime
from typing import Any

from gkm.api.cache import CacheSpec, ClusterGKMCache, GKMCache
from gkm.api.meta import ObjectMeta
from gkm.api.node import DigestReport, PodUse
from gkm.api.status import CacheStatus
from gkm.api.values import StageState
from gkm.operator.objects import Cache
from gkm.operator.resolution import Resolution

UID = "11111111-2222-3333-4444-555555555555"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
A, B, C = (f"sha256:{letter * 64}" for letter in "abc")


def cache(
    *, cluster: bool = False, generation: int = 1, status: CacheStatus | None = None, **spec: Any
) -> Cache:
    """A cache that the API server might have stored."""
    kind = ClusterGKMCache if cluster else GKMCache
    metadata = ObjectMeta(
        name="kernels",
        namespace=None if cluster else "team",
        uid=UID,
        generation=generation,
        resource_version="7",
    )
    return kind(metadata=metadata, spec=CacheSpec(image="registry.test/kernels:v1", **spec), status=status)


def resolution(digest: str) -> Resolution:
    """What a registry might have answered."""
    return Resolution(f"registry.test/kernels@{digest}", digest, (), None)


def report(state: StageState, *pods: str, cold: bool = False) -> DigestReport:
    """What a node might say of one digest."""
    uses = tuple(PodUse(uid=pod, cold=cold) for pod in pods) or None
    return DigestReport(state=state, pods=uses, last_updated=NOW)
