"""`GKMCache` and `ClusterGKMCache`: what a user asks for, and what became of it."""

from typing import Annotated

import msgspec

from gkm.api.constraints import (
    DNS_LABEL,
    DNS_SUBDOMAIN,
    Rule,
    between,
    default,
    distinct,
    immutable,
    in_order,
    keyed,
    length,
    pattern,
    rules,
)
from gkm.api.meta import Object
from gkm.api.podtemplate import PodTemplate
from gkm.api.status import CacheStatus
from gkm.api.values import AccessMode, Delivery, Staging, WhenUnavailable
from gkm.api.wire import Wire

_HOST_PART = "[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?"
_HOST = rf"(\[[0-9a-fA-F:]+\]|{_HOST_PART}(\.{_HOST_PART})*)(:[0-9]{{1,5}})?"
_NAME = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
_TAG = "[A-Za-z0-9_][-A-Za-z0-9_.]{0,127}"
_IMAGE = f"^{_HOST}(/{_NAME})+(:{_TAG})?(@sha256:[0-9a-f]{{64}})?$"
IMAGE_LENGTH = 525
"""Characters of an image reference, as upstream bounds it."""

IMAGE_RULE = Rule(
    rule=f"self.matches(r'{_IMAGE}')",
    message=(
        "must be HOST/REPO[:TAG][@sha256:DIGEST], the repository in lower case,"
        " for example registry.example/kernels/vector-add:1"
    ),
)
"""OCI distribution-spec, "Pulling manifests", for names and tags; the host is never implied."""

MOUNT_PATH_RULE = Rule(
    rule=r"self.matches(r'^(/[^/:\x00-\x1f\x7f]+)+$') && !self.matches(r'(^|/)[.][.]?(/|$)')",
    message="must be an absolute path below /, without '.', '..', ':', empty parts or a final '/': /cache",
)

WRITE_LIMIT_RULE = Rule(
    rule="type(self) == int ? self > 0 : string(self).matches(r'^[1-9][0-9]*([kMGT]|[KMGT]i)?$')",
    message="must be a whole number of bytes above 0, with or without k, M, G, T, Ki, Mi, Gi or Ti: 2Gi",
)

_RECREATE = "delete the cache and create it again"


class LocalReference(Wire, frozen=True, kw_only=True):
    """An object in the cache's own namespace; for a ClusterGKMCache in gkm-system."""

    name: Annotated[str, pattern(DNS_SUBDOMAIN, 253)]
    """The object's name."""


class CacheSpec(Wire, frozen=True, kw_only=True):
    """What a user asks for."""

    image: Annotated[str, length(IMAGE_LENGTH), rules(IMAGE_RULE)]
    """The cache image, ``HOST/REPO[:TAG][@sha256:DIGEST]``. A tag is resolved to a digest once per change
    of the spec, and again every ``refreshSeconds`` where that is set."""
    delivery: Delivery | None = None
    """How pods get the cache. ``CSI``: each pod mounts its node's copy through csi.gkm.io. ``SharedPVC``:
    one PVC for each workload namespace, filled once. ``NodePVC``: one PVC for each node and namespace.
    Absent: SharedPVC if ``accessModes`` has ReadOnlyMany, else CSI (NodePVC where the CSI driver is off);
    ``status.delivery`` says which."""
    staging: Annotated[Staging | None, default(Staging.EAGER)] = None
    """When nodes stage the cache. ``Eager``: every compatible node that ``podTemplate.spec.nodeSelector``
    selects, at once. ``OnDemand``: a node's first pod that asks for it."""
    mount_path: Annotated[str | None, default("/cache"), length(1024), rules(MOUNT_PATH_RULE)] = None
    """The absolute path at which pods will see a cache delivered by PVC; paths inside the cache are
    relocated to it. CSI reads the path from the pod instead."""
    when_unavailable: Annotated[WhenUnavailable | None, default(WhenUnavailable.START_COLD)] = None
    """What a pod does while the cache is incompatible, unverified or late. ``StartCold``: after
    ``waitSeconds`` it gets an empty writable directory and an Event that says why. ``Wait``: it does not
    start."""
    wait_seconds: Annotated[int | None, default(30), between(0, 86400)] = None
    """With ``StartCold``: how many seconds a node's pods wait for the cache, counted from the first of
    them."""
    refresh_seconds: Annotated[int | None, between(10)] = None
    """Resolve the image's tag again at this interval. Absent: only when the spec changes."""
    write_limit: Annotated[int | str | None, length(32), rules(WRITE_LIMIT_RULE)] = None
    """How much one pod may add to its mount, in bytes or with a suffix (``2Gi``); more fails in that pod
    with ENOSPC. Absent: the install-wide limit in the ConfigMap gkm-config."""
    image_pull_secrets: Annotated[tuple[LocalReference, ...] | None, keyed("name", at_most=16)] = None
    """Secrets with registry credentials for the image, in the cache's namespace; for a ClusterGKMCache in
    gkm-system."""
    storage_class_name: Annotated[str | None, pattern(f"({DNS_SUBDOMAIN})|(^$)", 253)] = None
    """The StorageClass of PVCs. Absent: the cluster's default."""
    access_modes: Annotated[
        tuple[AccessMode, ...] | None, default([AccessMode.READ_WRITE_ONCE]), in_order(at_most=4)
    ] = None
    """The access modes of PVCs: ``ReadWriteOnce``, ``ReadOnlyMany``, ``ReadWriteMany``,
    ``ReadWriteOncePod``. Kubernetes can't be asked what a StorageClass can do, so add ReadOnlyMany where it
    can: one PVC is then filled once and read on every node."""
    workload_namespaces: Annotated[
        tuple[Annotated[str, pattern(DNS_LABEL, 63)], ...] | None, distinct(at_most=4096)
    ] = None
    """ClusterGKMCache: the namespaces whose pods may use the cache, and where PVCs are made; may change at
    any time. Absent or empty: every namespace by inline CSI, and no PVCs. A GKMCache serves its own
    namespace and ignores it."""
    pod_template: PodTemplate | None = None
    """Changes to the pods of extraction Jobs. Merged with what GKM sets, which wins where both say
    something."""


CacheSpecField = Annotated[
    CacheSpec,
    rules(
        immutable("delivery", _RECREATE),
        immutable("accessModes", _RECREATE),
        immutable("storageClassName", _RECREATE),
    ),
]


class GKMCache(Object, frozen=True, kw_only=True):
    """A kernel cache for the pods of one namespace."""

    kind: str = msgspec.field(default_factory=lambda: "GKMCache")
    spec: CacheSpecField
    """What is asked for."""
    status: CacheStatus | None = None
    """What became of it."""


class ClusterGKMCache(Object, frozen=True, kw_only=True):
    """A kernel cache for the pods of several namespaces."""

    kind: str = msgspec.field(default_factory=lambda: "ClusterGKMCache")
    spec: CacheSpecField
    """What is asked for."""
    status: CacheStatus | None = None
    """What became of it."""
