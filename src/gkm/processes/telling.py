"""Events as the CSI driver and staging tell them, for the recorder, which wants objects."""

from collections.abc import Callable, Iterable

from gkm.agent.grants import CacheKey, find
from gkm.api.definitions import CLUSTER_GKM_CACHE, GKM_CACHE
from gkm.api.grant import GKMGrant
from gkm.api.values import CacheKind
from gkm.api.wire import GROUP, VERSION
from gkm.csi.ports import CacheName, PodName
from gkm.kube.events import EventRecorder, Type
from gkm.kube.objects import ObjectMeta, PartialObject
from gkm.kube.resources import PODS, Resource

_CACHES = {
    kind: Resource(PartialObject, GROUP, VERSION, of.kind, of.plural, of.namespaced)
    for kind, of in ((CacheKind.GKM_CACHE, GKM_CACHE), (CacheKind.CLUSTER_GKM_CACHE, CLUSTER_GKM_CACHE))
}


class Telling:
    """A `gkm.csi.ports.Events`: hands everything to `recorder`; caches are those that `grants` name."""

    def __init__(self, recorder: EventRecorder, grants: Callable[[], Iterable[GKMGrant]]) -> None:
        self._recorder = recorder
        self._grants = grants

    def pod(self, pod: PodName, reason: str, message: str, *, warning: bool) -> None:
        """Tell something about a pod."""
        about = PartialObject(metadata=ObjectMeta(name=pod.name, namespace=pod.namespace, uid=pod.uid))
        self._recorder.event(PODS, about, _type(warning), reason, message, action="Mount")

    def cache(self, cache: CacheName, reason: str, message: str, *, warning: bool) -> None:
        """Tell something about a cache; nothing where none is granted under this name."""
        grant = find(self._grants(), CacheKey(cache.kind, cache.namespace, cache.name))
        if grant is not None:
            self._about(grant, reason, message, warning=warning, action="Mount")

    def staging(self, grant: GKMGrant, reason: str, message: str, *, warning: bool) -> None:
        """Tell how staging goes of the cache of `grant`: a `gkm.agent.telling.Tell`."""
        self._about(grant, reason, message, warning=warning, action="Stage")

    def _about(self, grant: GKMGrant, reason: str, message: str, *, warning: bool, action: str) -> None:
        named = grant.spec.cache
        metadata = ObjectMeta(name=named.name, namespace=named.namespace or "", uid=named.uid)
        about = PartialObject(metadata=metadata)
        self._recorder.event(_CACHES[named.kind], about, _type(warning), reason, message, action=action)


def _type(warning: bool) -> Type:
    return Type.WARNING if warning else Type.NORMAL
