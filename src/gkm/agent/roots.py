"""The paths at which this node's pods will see a cache, as far as they are known before kubelet asks."""

from collections.abc import Callable, Iterable, Iterator

from gkm.agent.grants import CacheKey, allows, cache_key, newest
from gkm.agent.pods import NodePod, volumes_named
from gkm.api.grant import GKMGrant

MOST_ROOTS = 16
"""For which a tree is relocated before anybody mounts it; the others are when they are asked for."""

Seen = Callable[[NodePod, str], str | None]
"""The path at which a pod sees its volume of that name; None where the cache keeps the paths of its image."""


def unseen(pod: NodePod, volume: str) -> str | None:  # noqa: ARG001  the protocol's arguments
    """Knows of no path: everything is relocated when it is asked for."""
    return None


def roots_named(pod: NodePod, seen: Seen) -> Iterator[tuple[CacheKey, str]]:
    """The caches that `pod` may mount, each with the path at which it will see it."""
    for volume, key in volumes_named(pod):
        root = seen(pod, volume)
        if root is not None:
            yield key, root


def roots_awaiting(
    digest: str, grants: Iterable[GKMGrant], pods: Iterable[NodePod], seen: Seen
) -> tuple[str, ...]:
    """The paths at which `pods` will see the tree of `digest` once it is staged, sorted; of many the first."""
    granted = {cache_key(grant): grant for grant in grants if newest(grant) == digest}
    found = {
        root
        for pod in pods
        for key, root in roots_named(pod, seen)
        if key in granted and allows(granted[key], pod.metadata.namespace)
    }
    return tuple(sorted(found)[:MOST_ROOTS])
