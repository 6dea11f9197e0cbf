"""What is noted in a view's journal of the pod it is for, and reading it again."""

from collections.abc import Mapping

from gkm.api.values import CacheKind
from gkm.csi.ports import CacheName, MountedView, PodName
from gkm.csi.volume import VolumeRequest
from gkm.store.bounded import Bounds
from gkm.store.host import HostedView

_LIMIT = "limit"


def notes(request: VolumeRequest, bounds: Bounds) -> dict[str, str]:
    """The notes for a view of `request` with `bounds`."""
    return {
        "kind": request.cache.kind.value,
        "cacheNamespace": request.cache.namespace or "",
        "cache": request.cache.name,
        "namespace": request.pod.namespace,
        "pod": request.pod.name,
        "uid": request.pod.uid,
        "volume": request.volume_id,
        _LIMIT: str(bounds.bytes),
    }


def with_limit(notes: Mapping[str, str], limit: int) -> dict[str, str]:
    """`notes` of a view whose pod may add `limit` bytes to the disk."""
    return {**notes, _LIMIT: str(limit)}


def limit_of(view: HostedView) -> int:
    """How many bytes the pod of `view` may add to the disk; 0 where that is not known."""
    text = view.journal.notes.get(_LIMIT, "")
    return int(text) if text.isdecimal() else 0


def describe(view: HostedView) -> MountedView:
    """`view` with what its notes say; a note that is missing is an empty string."""
    said = view.journal.notes
    return MountedView(
        target=view.target,
        cache=CacheName(
            CacheKind(said.get("kind", CacheKind.CLUSTER_GKM_CACHE)),
            said.get("cacheNamespace") or None,
            said.get("cache", ""),
        ),
        pod=PodName(said.get("namespace", ""), said.get("pod", ""), said.get("uid", "")),
        volume_id=said.get("volume", ""),
        digest=view.journal.digest,
        mode=view.journal.mode.value,
        bounded=view.bounded,
        upper=view.upper,
    )
