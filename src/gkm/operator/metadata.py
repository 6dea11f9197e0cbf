"""What the operator keeps in a cache's metadata: its finalizer, and upstream's annotations as a mirror."""

from typing import Any

from gkm.api.names import Annotation, Finalizer
from gkm.operator.objects import Cache
from gkm.operator.resolution import Resolution


def hold(cache: Cache, finalizer: Finalizer) -> dict[str, Any]:
    """The change that puts our finalizer there; empty where it is."""
    there = cache.metadata.finalizers or ()
    return {} if finalizer in there else {"finalizers": [*there, finalizer.value]}


def release(cache: Cache, finalizer: Finalizer) -> dict[str, Any]:
    """The change that takes our finalizer away; empty where it is not."""
    there = cache.metadata.finalizers or ()
    return {"finalizers": [name for name in there if name != finalizer]} if finalizer in there else {}


def mirror(cache: Cache, serves: Resolution | None) -> dict[str, Any]:
    """The change that makes upstream's annotations say what nodes are to have. They are never read back."""
    size = serves.bytes if serves else None
    wanted = {
        Annotation.RESOLVED_DIGEST.value: serves.digest if serves else None,
        Annotation.CACHE_SIZE_BYTES.value: None if size is None else str(size),
        Annotation.MUTATION_SIGNATURE.value: None,
        Annotation.LAST_MUTATED_BY.value: None,
    }
    there = cache.metadata.annotations or {}
    changes = {name: value for name, value in wanted.items() if there.get(name) != value}
    return {"annotations": changes} if changes else {}
