"""What a publish call asks for: pure reading of the request, of which users wrote the attributes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gkm.api.constraints import DNS_LABEL, DNS_SUBDOMAIN
from gkm.api.names import CSI_ATTRIBUTE_CACHE, CSI_ATTRIBUTE_NAMESPACE
from gkm.api.values import CacheKind
from gkm.csi.errors import InvalidRequestError
from gkm.csi.ports import CacheName, PodName
from gkm.kubelet.protos import csi_pb2 as wire

# Set by kubelet for drivers with podInfoOnMount, over anything a user wrote (k8s.io/kubernetes
# pkg/volume/csi/csi_mounter.go, getPodInfoAttrs).
_POD = "csi.storage.k8s.io/pod."
_EPHEMERAL = "csi.storage.k8s.io/ephemeral"
_UID = re.compile(r"[-A-Za-z0-9]{1,128}")


@dataclass(frozen=True, slots=True)
class Target:
    """A path at which kubelet wants a volume: ``ROOT/pods/UID/volumes/kubernetes.io~csi/NAME/mount``."""

    path: Path
    pod_uid: str
    volume: str
    """The volume's name in the pod for an inline volume, the PersistentVolume's for a claim."""


@dataclass(frozen=True, slots=True)
class VolumeRequest:
    """A volume to be published."""

    volume_id: str
    target: Target
    cache: CacheName
    pod: PodName
    inline: bool
    """Named in the pod itself, not through a claim."""
    read_only: bool


def parse_target(kubelet_root: Path, text: str) -> Target:
    """The target that `text` names.

    Raises:
        InvalidRequestError: it is not one of kubelet's paths for CSI volumes.
    """
    path = Path(text)
    try:
        parts = path.relative_to(kubelet_root).parts
    except ValueError:
        parts = ()
    match parts:
        case ("pods", uid, "volumes", "kubernetes.io~csi", name, "mount") if (
            _UID.fullmatch(uid) and ".." not in parts and text == str(path)
        ):
            return Target(path, uid, name)
        case _:
            raise InvalidRequestError(
                f"target path {text!r} is not below {kubelet_root}/pods: give the agent kubelet's root directory"
            )


def parse_publish(kubelet_root: Path, request: wire.NodePublishVolumeRequest) -> VolumeRequest:
    """What `request` asks for.

    Raises:
        InvalidRequestError: something is missing, malformed or contradicts itself.
    """
    if not request.volume_id:
        raise InvalidRequestError("the volume has no ID")
    if not request.HasField("volume_capability"):
        raise InvalidRequestError("the volume has no capability")
    if not request.volume_capability.HasField("mount"):
        raise InvalidRequestError("a kernel cache is a directory: use volumeMode Filesystem")
    target = parse_target(kubelet_root, request.target_path)
    pod = _pod(request.volume_context, target)
    return VolumeRequest(
        volume_id=request.volume_id,
        target=target,
        cache=_cache(request.volume_context),
        pod=pod,
        inline=request.volume_context.get(_EPHEMERAL) == "true",
        read_only=request.readonly,
    )


def _pod(context: Mapping[str, str], target: Target) -> PodName:
    pod = PodName(*(context.get(f"{_POD}{key}", "") for key in ("namespace", "name", "uid")))
    if not all(pod):
        raise InvalidRequestError("the call does not name its pod: the CSIDriver needs podInfoOnMount: true")
    if pod.uid != target.pod_uid:
        raise InvalidRequestError(f"the target path is of pod {target.pod_uid}, the call of pod {pod.uid}")
    return pod


def _cache(context: Mapping[str, str]) -> CacheName:
    name, namespace = context.get(CSI_ATTRIBUTE_CACHE, ""), context.get(CSI_ATTRIBUTE_NAMESPACE) or None
    if not re.fullmatch(DNS_SUBDOMAIN, name):
        raise InvalidRequestError(
            f"the volume attribute {CSI_ATTRIBUTE_CACHE} is {name[:80]!r}: set it to the name of a cache"
        )
    if namespace is not None and not re.fullmatch(DNS_LABEL, namespace):
        raise InvalidRequestError(
            f"the volume attribute {CSI_ATTRIBUTE_NAMESPACE} is {namespace[:80]!r}: set it to the pod's namespace"
        )
    kind = CacheKind.CLUSTER_GKM_CACHE if namespace is None else CacheKind.GKM_CACHE
    return CacheName(kind, namespace, name)
