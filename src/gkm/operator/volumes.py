"""Delivery by CSI: one static PersistentVolume per cache and namespace, bound to a claim named after the
cache.

Pure: what is there is handed in, and what is to be done comes out. The volume is made first: Kubernetes binds
a claim at once if its volume is there, and else looks again only every 15 s (kube-controller-manager's
--pvclaimbinder-sync-period). A claim that is not ours is never touched, and finds no volume of ours.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from gkm.api.names import CSI_DRIVER, MANAGER, Label
from gkm.kube.objects import Key, PartialObject
from gkm.kube.resources import Resource
from gkm.operator.objects import CLAIMS, VOLUMES, Claim, Volume
from gkm.operator.scope import volume_attributes

_CAPACITY = "1Gi"
"""Nominal: a volume and a claim must name one, and both exist before the size of the cache is known."""
_ACCESS_MODES = ["ReadWriteMany", "ReadOnlyMany"]
"""Each pod has a mount of its own, so any number of nodes may have one, writable or not."""


@dataclass(frozen=True, slots=True)
class Create:
    """Make this object."""

    resource: Resource[Any]
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete just this object."""

    resource: Resource[Any]
    name: str
    namespace: str
    uid: str


Action: TypeAlias = Create | Delete


class Stage(Enum):
    """How far delivery to one namespace is."""

    BOUND = "bound"
    ON_THE_WAY = "on the way"
    FOREIGN = "foreign"
    """A claim of the name is there, and is not this cache's."""
    NO_NAMESPACE = "no namespace"
    TERMINATING = "terminating"
    """The namespace is going away."""
    LEAVING = "leaving"
    """Not wanted there any more, and not gone yet."""
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Place:
    """What there is in one namespace."""

    namespace: str
    there: PartialObject | None
    """The Namespace; None: it does not exist."""
    claim: Claim | None
    """The claim named after the cache, whosever it is."""
    volume: Volume | None
    """The cache's volume for this namespace."""


def volume_name(uid: str, namespace: str) -> str:
    """The name of the volume of the cache with this UID for `namespace`, and its volume handle.

    No digest in it: kubelet knows a volume by its handle, and the digest changes below running pods.
    """
    return f"gkm-{uid}-{namespace}"


def is_ours(claim: Claim, uid: str) -> bool:
    """Whether `claim` was made for the cache with this UID."""
    labels = claim.metadata.labels or {}
    named = claim.spec.volume_name == volume_name(uid, claim.metadata.namespace)
    return named and labels.get(Label.CACHE_UID) == uid


def deliver(cache: Key, uid: str, place: Place) -> tuple[Stage, list[Action]]:
    """What to do so that the pods of one namespace can claim the cache, and how far that is."""
    claim, volume, there = place.claim, place.volume, place.there
    if there is None or there.metadata.deletion_timestamp:
        # Kubernetes deletes the claim with its namespace; nothing can be created there.
        stage = Stage.NO_NAMESPACE if there is None else Stage.TERMINATING
        return stage, ([_delete_volume(volume)] if claim is None and _stands(volume) else [])
    if claim is not None and not is_ours(claim, uid):
        return Stage.FOREIGN, ([_delete_volume(volume)] if _stands(volume) else [])
    if claim is not None and claim.metadata.deletion_timestamp:
        return Stage.ON_THE_WAY, []
    if volume is not None and not _fits(volume, claim):
        return Stage.ON_THE_WAY, ([_delete_volume(volume)] if _stands(volume) else [])
    actions: list[Action] = []
    if volume is None:
        for_claim = claim.metadata.uid if claim is not None else None
        actions.append(Create(VOLUMES, volume_body(cache, uid, place.namespace, for_claim)))
    if claim is None:
        actions.append(Create(CLAIMS, claim_body(cache, uid, place.namespace)))
    if claim is None or volume is None:
        return Stage.ON_THE_WAY, actions
    bound = claim.status.phase == "Bound" and not volume.metadata.deletion_timestamp
    return (Stage.BOUND if bound else Stage.ON_THE_WAY), []


def withdraw(uid: str, place: Place) -> tuple[Stage, list[Action]]:
    """What to do so that one namespace has nothing more of the cache: first the claim, then the volume."""
    claim, volume = place.claim, place.volume
    if claim is not None and is_ours(claim, uid):
        meta = claim.metadata
        if meta.deletion_timestamp:
            return Stage.LEAVING, []
        return Stage.LEAVING, [Delete(CLAIMS, meta.name, meta.namespace, meta.uid)]
    if volume is None:
        return Stage.GONE, []
    return Stage.LEAVING, ([_delete_volume(volume)] if _stands(volume) else [])


def claim_body(cache: Key, uid: str, namespace: str) -> dict[str, Any]:
    """The claim, as it is created."""
    return {
        "metadata": {"name": cache.name, "namespace": namespace, "labels": labels(uid)},
        "spec": {
            "accessModes": _ACCESS_MODES,
            # Empty, not absent: the cluster's default class would provision another volume.
            "storageClassName": "",
            "volumeName": volume_name(uid, namespace),
            "resources": {"requests": {"storage": _CAPACITY}},
        },
    }


def volume_body(cache: Key, uid: str, namespace: str, claim_uid: str | None) -> dict[str, Any]:
    """The volume for the claim in `namespace`, as it is created.

    `claim_uid` names the claim that is there already: one that lost its volume takes no other.
    """
    name = volume_name(uid, namespace)
    return {
        "metadata": {"name": name, "labels": labels(uid)},
        "spec": {
            "capacity": {"storage": _CAPACITY},
            "accessModes": _ACCESS_MODES,
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "volumeMode": "Filesystem",
            "claimRef": {
                "apiVersion": CLAIMS.api_version,
                "kind": CLAIMS.kind,
                "namespace": namespace,
                "name": cache.name,
                **({"uid": claim_uid} if claim_uid else {}),
            },
            "csi": {
                "driver": CSI_DRIVER,
                "volumeHandle": name,
                "volumeAttributes": volume_attributes(cache),
            },
        },
    }


def labels(uid: str) -> dict[str, str]:
    """The labels of every object that is made for the cache with this UID."""
    return {Label.MANAGED_BY.value: MANAGER, Label.CACHE_UID.value: uid}


def left_over(volumes: Iterable[Volume], claims: Iterable[Claim], wanted: Iterable[str]) -> list[str]:
    """The namespaces, sorted, that have a cache's `volumes` or `claims` although they are not `wanted`."""
    there = {volume.spec.claim_ref.namespace for volume in volumes if volume.spec.claim_ref}
    there |= {claim.metadata.namespace for claim in claims}
    return sorted(there - set(wanted))


def _fits(volume: Volume, claim: Claim | None) -> bool:
    """Whether `volume` is `claim`'s or free. One that had another claim is Released, and never bound again."""
    reference = volume.spec.claim_ref
    if reference is None or volume.status.phase in ("Released", "Failed"):
        return False
    return not reference.uid or (claim is not None and reference.uid == claim.metadata.uid)


def _stands(volume: Volume | None) -> bool:
    return volume is not None and not volume.metadata.deletion_timestamp


def _delete_volume(volume: Volume | None) -> Delete:
    assert volume is not None
    return Delete(VOLUMES, volume.metadata.name, "", volume.metadata.uid)
