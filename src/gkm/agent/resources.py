"""The objects that an agent reads and writes, as resources of the API."""

import msgspec

from gkm.api.grant import GKMGrant
from gkm.api.node import ClusterGKMCacheNode, GKMCacheNode
from gkm.api.wire import GROUP, VERSION
from gkm.kube.objects import ObjectMeta, Slim
from gkm.kube.resources import Resource

GRANTS = Resource(GKMGrant, GROUP, VERSION, "GKMGrant", "gkmgrants", namespaced=False)
REPORTS = Resource(GKMCacheNode, GROUP, VERSION, "GKMCacheNode", "gkmcachenodes")
CLUSTER_REPORTS = Resource(
    ClusterGKMCacheNode, GROUP, VERSION, "ClusterGKMCacheNode", "clustergkmcachenodes", namespaced=False
)


class Secret(Slim, frozen=True):
    """`v1` Secret: its data, in base64."""

    metadata: ObjectMeta = ObjectMeta()
    type: str = ""
    data: dict[str, str] = msgspec.field(default_factory=dict)


SECRETS = Resource(Secret, "", "v1", "Secret", "secrets")
