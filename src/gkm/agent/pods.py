"""This node's pods, as far as the node needs them: their volumes, mounts and user namespace.

The projection is also what the CSI driver asks for; attribute names are those that it reads.
"""

import asyncio
from collections.abc import Iterator
from typing import Protocol

import msgspec

from gkm.agent.grants import CacheKey
from gkm.api.names import CSI_ATTRIBUTE_CACHE, CSI_ATTRIBUTE_NAMESPACE, CSI_DRIVER
from gkm.api.values import CacheKind
from gkm.kube.client import Client
from gkm.kube.errors import KubeError
from gkm.kube.objects import Key, ObjectMeta, PodStatus, Slim
from gkm.kube.reflector import Reflector
from gkm.kube.resources import PODS, Resource


class Mount(Slim, frozen=True):
    """One of a container's ``volumeMounts``."""

    name: str = ""
    mount_path: str = ""
    sub_path: str | None = None
    sub_path_expr: str | None = None
    read_only: bool | None = None


class _Container(Slim, frozen=True):
    volume_mounts: tuple[Mount, ...] = ()


class _Claim(Slim, frozen=True):
    claim_name: str = ""


class _CSISource(Slim, frozen=True):
    driver: str = ""
    volume_attributes: dict[str, str] = msgspec.field(default_factory=dict)


class Volume(Slim, frozen=True):
    """One of a pod's volumes."""

    name: str = ""
    persistent_volume_claim: _Claim | None = None
    csi: _CSISource | None = None

    @property
    def claim_name(self) -> str | None:
        """``persistentVolumeClaim.claimName``; None for every other kind of volume."""
        return None if self.persistent_volume_claim is None else self.persistent_volume_claim.claim_name


class _PodSpec(Slim, frozen=True):
    node_name: str = ""
    host_users: bool | None = None
    volumes: tuple[Volume, ...] = ()
    # An explicit null is what some clients write for an empty list.
    containers: tuple[_Container, ...] | None = ()


class NodePod(Slim, frozen=True):
    """A pod of this node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _PodSpec = _PodSpec()
    status: PodStatus = PodStatus()

    @property
    def host_users(self) -> bool | None:
        """``spec.hostUsers``; False gives the pod a user namespace."""
        return self.spec.host_users

    @property
    def volumes(self) -> tuple[Volume, ...]:
        """``spec.volumes``."""
        return self.spec.volumes

    @property
    def containers(self) -> tuple[tuple[Mount, ...], ...]:
        """The mounts of each main container, in the pod's order."""
        return tuple(container.volume_mounts for container in self.spec.containers or ())


_FETCH_SECONDS = 3.0
NODE_PODS: Resource[NodePod] = PODS.read_as(NodePod)


def caches_named(pod: NodePod) -> Iterator[CacheKey]:
    """The caches that the pod's volumes may stand for, whether they exist or not, see `volumes_named`."""
    return (key for _, key in volumes_named(pod))


def volumes_named(pod: NodePod) -> Iterator[tuple[str, CacheKey]]:
    """The names of the pod's volumes that may stand for a cache, each with that cache, whether it exists or not.

    Inline volumes name theirs. A claim is named after its cache, of either kind; a claim of other storage with
    a cache's name asks for nothing worse than staging a cache that its namespace may use anyway.
    """
    if pod.metadata.deletion_timestamp or pod.status.phase in ("Succeeded", "Failed"):
        return
    for volume in pod.volumes:
        if volume.csi is not None and volume.csi.driver == CSI_DRIVER:
            name = volume.csi.volume_attributes.get(CSI_ATTRIBUTE_CACHE, "")
            namespace = volume.csi.volume_attributes.get(CSI_ATTRIBUTE_NAMESPACE)
            kind = CacheKind.GKM_CACHE if namespace else CacheKind.CLUSTER_GKM_CACHE
            yield volume.name, CacheKey(kind, namespace or None, name)
        elif volume.claim_name:
            yield volume.name, CacheKey(CacheKind.GKM_CACHE, pod.metadata.namespace, volume.claim_name)
            yield volume.name, CacheKey(CacheKind.CLUSTER_GKM_CACHE, None, volume.claim_name)


class PodName(Protocol):
    """A pod as kubelet names it."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...


class NodePods:
    """Looks pods up: in the watch's store, and at the API server where the watch is late."""

    def __init__(self, client: Client, reflector: Reflector[NodePod]) -> None:
        self._client = client
        self._reflector = reflector

    async def facts(self, pod: PodName) -> NodePod | None:
        """The pod with this namespace, name and UID; None where it cannot be had now."""
        found = self._reflector.store.get(Key(pod.namespace, pod.name))
        if found is None or found.metadata.uid != pod.uid:
            try:
                async with asyncio.timeout(_FETCH_SECONDS):
                    found = await self._client.get(NODE_PODS, pod.name, pod.namespace)
            except (KubeError, TimeoutError):
                return None
        return found if found.metadata.uid == pod.uid else None
