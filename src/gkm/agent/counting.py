"""Hits and misses of one view, counted where a pod's bytes can do no harm: the messages, and the child's part.

The child keeps CAP_DAC_READ_SEARCH and nothing else, so that it sees files that only the pod's user may read: a
miss that was not seen must not become a zero. It can write nothing and reach no network.
"""

from pathlib import Path

import msgspec

from gkm.base.errors import GKMError
from gkm.caches.usage import count
from gkm.store.errors import StoreError
from gkm.store.sealed import read_tree


class CountRequest(msgspec.Struct, frozen=True, rename="camel"):
    """Count one view."""

    tree: str
    """The directory of the sealed tree below it."""
    upper: str
    """What the pod added or changed."""
    opened: tuple[str, ...]
    """Payload files that it opened."""


class CountAnswer(msgspec.Struct, frozen=True):
    """What was counted; None where that failed, and `problem` says why."""

    hits: int | None = None
    misses: int | None = None
    problem: str = ""


def counted(request: CountRequest) -> CountAnswer:
    """Count as `request` asks."""
    try:
        tree = read_tree(Path(request.tree))
        if tree is None:
            raise StoreError(f"{request.tree} is no sealed tree any more")
        usage = count(tree.inventory, request.opened, Path(request.upper), tree.path)
    except (GKMError, OSError) as error:
        return CountAnswer(problem=f"{type(error).__name__}: {error}"[:1000])
    return CountAnswer(hits=usage.hits, misses=usage.misses)
