"""The grants as this node needs them: by the cache that a pod names, and by digest. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from gkm.api.grant import GKMGrant
from gkm.api.values import CacheKind, Staging


@dataclass(frozen=True, slots=True)
class CacheKey:
    """A cache as pods name it."""

    kind: CacheKind
    namespace: str | None
    """None for a ClusterGKMCache."""
    name: str


@dataclass(frozen=True, slots=True)
class Source:
    """One place to pull a digest from."""

    image: str
    """``HOST/REPO@sha256:DIGEST``."""
    pull_secret: str | None


def cache_key(grant: GKMGrant) -> CacheKey:
    """The cache that `grant` is for."""
    cache = grant.spec.cache
    return CacheKey(cache.kind, cache.namespace, cache.name)


def find(grants: Iterable[GKMGrant], key: CacheKey) -> GKMGrant | None:
    """The grant of the cache called `key`.

    Of several (a cache deleted and made again under its name, while pods still use the first) the one that is
    not being deleted, and of those the newest.
    """
    named = [grant for grant in grants if grant.spec.cache.name == key.name and cache_key(grant) == key]
    return max(named, key=_rank, default=None)


def by_cache(grants: Iterable[GKMGrant]) -> dict[CacheKey, GKMGrant]:
    """What `find` gives for each cache, in one pass."""
    found: dict[CacheKey, GKMGrant] = {}
    for grant in grants:
        key = cache_key(grant)
        if key not in found or _rank(found[key]) < _rank(grant):
            found[key] = grant
    return found


def _rank(grant: GKMGrant) -> tuple[bool, float, str]:
    made = grant.metadata.creation_timestamp
    return (not is_ending(grant), made.timestamp() if made else 0.0, grant.spec.cache.uid)


def is_ending(grant: GKMGrant) -> bool:
    """Whether the grant is being deleted: nothing new starts from it."""
    return grant.metadata.deletion_timestamp is not None


def allows(grant: GKMGrant, pod_namespace: str) -> bool:
    """Whether pods of `pod_namespace` may mount the cache."""
    return bool(grant.spec.all_namespaces) or pod_namespace in (grant.spec.namespaces or ())


def newest(grant: GKMGrant) -> str | None:
    """The digest that nodes stage; None where nothing is allowed, or nothing any more."""
    return None if is_ending(grant) or not grant.spec.digests else grant.spec.digests[0]


def staged_digest(grant: GKMGrant, staged: Collection[str]) -> str | None:
    """What a pod gets: the newest digest that is both granted and staged."""
    if is_ending(grant):
        return None
    return next((digest for digest in grant.spec.digests if digest in staged), None)


def eager_here(grant: GKMGrant, node_labels: Mapping[str, str]) -> bool:
    """Whether this node stages the cache before any pod asks for it."""
    selector = grant.spec.node_selector or {}
    return grant.spec.staging != Staging.ON_DEMAND and selector.items() <= node_labels.items()


def still_of_use(grants: Iterable[GKMGrant], staged: Collection[str]) -> frozenset[str]:
    """The digests that new pods would get: each grant's newest, and until that is staged the one before it."""
    kept: set[str] = set()
    for grant in grants:
        if first := newest(grant):
            kept.add(first)
        if serving := staged_digest(grant, staged):
            kept.add(serving)
    return frozenset(kept)
