"""Kubernetes' own objects that the operator reads or makes, as far as it reads them, and our resources."""

from typing import TypeAlias, cast

from gkm.api import definitions
from gkm.api.cache import ClusterGKMCache, GKMCache
from gkm.api.grant import GKMGrant
from gkm.api.node import ClusterGKMCacheNode, GKMCacheNode
from gkm.api.wire import GROUP, VERSION
from gkm.kube.objects import KubeObject, ObjectMeta, PartialObject, Slim
from gkm.kube.resources import Resource

Cache: TypeAlias = GKMCache | ClusterGKMCache
Report: TypeAlias = GKMCacheNode | ClusterGKMCacheNode


class Condition(Slim, frozen=True):
    """A Node's condition, with the time since when it is so (RFC 3339)."""

    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class NodeStatus(Slim, frozen=True):
    """A Node's conditions, `Ready` among them."""

    conditions: tuple[Condition, ...] = ()


class Node(Slim, frozen=True):
    """`v1` Node: its labels, and since when it is Ready or not."""

    metadata: ObjectMeta = ObjectMeta()
    status: NodeStatus = NodeStatus()


class ClaimReference(Slim, frozen=True):
    """`spec.claimRef` of a PersistentVolume."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class CSISource(Slim, frozen=True):
    """`spec.csi` of a PersistentVolume."""

    driver: str = ""
    volume_attributes: dict[str, str] | None = None


class VolumeSpec(Slim, frozen=True):
    """What a PersistentVolume is, and whose."""

    claim_ref: ClaimReference | None = None
    csi: CSISource | None = None


class VolumeStatus(Slim, frozen=True):
    """A volume's or claim's phase."""

    phase: str = ""


class Volume(Slim, frozen=True):
    """`v1` PersistentVolume."""

    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeSpec = VolumeSpec()
    status: VolumeStatus = VolumeStatus()


class ClaimSpec(Slim, frozen=True):
    """Which volume a claim wants."""

    volume_name: str = ""


class Claim(Slim, frozen=True):
    """`v1` PersistentVolumeClaim."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimSpec = ClaimSpec()
    status: VolumeStatus = VolumeStatus()


class Secret(Slim, frozen=True):
    """`v1` Secret; values in base64."""

    metadata: ObjectMeta = ObjectMeta()
    type: str = ""
    data: dict[str, str] | None = None


NODES = Resource(Node, "", "v1", "Node", "nodes", namespaced=False)
NAMESPACES: Resource[PartialObject] = Resource(
    PartialObject, "", "v1", "Namespace", "namespaces", namespaced=False
).metadata_only()
VOLUMES = Resource(Volume, "", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
CLAIMS = Resource(Claim, "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
SECRETS = Resource(Secret, "", "v1", "Secret", "secrets")


def _ours(definition: definitions.Definition) -> Resource[KubeObject]:
    model = cast("type[KubeObject]", definition.struct)
    return Resource(model, GROUP, VERSION, definition.kind, definition.plural, definition.namespaced)


GKM_CACHES = cast("Resource[Cache]", _ours(definitions.GKM_CACHE))
CLUSTER_GKM_CACHES = cast("Resource[Cache]", _ours(definitions.CLUSTER_GKM_CACHE))
GKM_CACHE_NODES = cast("Resource[Report]", _ours(definitions.GKM_CACHE_NODE))
CLUSTER_GKM_CACHE_NODES = cast("Resource[Report]", _ours(definitions.CLUSTER_GKM_CACHE_NODE))
GRANTS = cast("Resource[GKMGrant]", _ours(definitions.GKM_GRANT))


def uid_of(obj: KubeObject) -> str:
    """The UID of an object that the API server returned, which always has one."""
    uid = obj.metadata.uid
    assert uid
    return uid
