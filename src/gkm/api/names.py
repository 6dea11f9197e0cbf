"""Every name that GKM gives or reads on Kubernetes objects, apart from field names: a rename here breaks
users.

Upstream's keys (the Go operator's, August 2026) stay byte for byte where both use them. Its annotations are
mirrored for its tools and never read back: whoever owns a namespace can write them.
"""

import enum

from gkm.api.wire import GROUP

SYSTEM_NAMESPACE = "gkm-system"
"""Where GKM runs, and where its ConfigMap and mirrored pull secrets are."""
CONFIG_MAP = "gkm-config"
"""The install-wide configuration, in the system namespace."""

CSI_DRIVER = "csi.gkm.io"
"""The CSIDriver object, kubelet's plugin directory, and `driver` of an inline volume."""
CSI_ATTRIBUTE_CACHE = "csi.gkm.io/GKMCache"
"""Volume attribute: the cache's name."""
CSI_ATTRIBUTE_NAMESPACE = "csi.gkm.io/namespace"
"""Volume attribute: the cache's namespace, which must be the pod's; absent for a ClusterGKMCache."""


class Label(enum.StrEnum):
    """Labels that GKM reads or writes."""

    PVC_MUTATION = f"{GROUP}/pvc-mutation"
    """On pods, by users: ``"true"`` asks the pod webhook to put the node's claim in place of the cache's
    name."""
    SIGNATURE_FORMAT = f"{GROUP}/signature-format"
    """On caches, by users: ``cosign-v2`` or ``cosign-v3`` narrows verification to that one."""
    MANAGED_BY = "app.kubernetes.io/managed-by"
    """On all objects that GKM makes: `MANAGER`."""
    CACHE_UID = f"{GROUP}/cache-uid"
    """On volumes, claims and Jobs: the cache they belong to. A UID, because a cache's name may be longer
    than a label's value, and a GKMCache and a ClusterGKMCache may share one."""
    HOSTNAME = "kubernetes.io/hostname"
    """On nodes, by kubelet; on node reports, as upstream has it. It need not equal the node's name."""


MANAGER = "gkm"
"""The value of `Label.MANAGED_BY`."""


class SignatureFormat(enum.StrEnum):
    """Values of `Label.SIGNATURE_FORMAT`."""

    COSIGN_V2 = "cosign-v2"
    COSIGN_V3 = "cosign-v3"


class Annotation(enum.StrEnum):
    """Annotations on caches, as upstream writes them. Mirrored or ignored, never trusted."""

    RESOLVED_DIGEST = f"{GROUP}/resolvedDigest"
    """Mirror of ``status.resolvedDigest``."""
    CACHE_SIZE_BYTES = f"{GROUP}/cache-size-bytes"
    """Mirror of the size that the image's labels tell, in decimal."""
    MUTATION_SIGNATURE = f"{GROUP}/mutationSig"
    """Upstream's HMAC on ClusterGKMCaches. Not written; named so that it can be removed."""
    LAST_MUTATED_BY = f"{GROUP}/lastMutatedBy"
    """Upstream's note of who changed a ClusterGKMCache. Not written; named so that it can be removed."""
    KYVERNO_VERIFY_IMAGES = "kyverno.io/verify-images"
    """Written by Kyverno where its policies are installed."""
    RESOLVED_GENERATION = f"{GROUP}/resolved-generation"
    """On grants, by the operator: the generation of the cache whose image the first digest was resolved from,
    in decimal. Grants are the operator's alone, so this one is read back."""


class Finalizer(enum.StrEnum):
    """Finalizers, upstream's keys; they hold a cache until its last warm mount is gone."""

    GKM_CACHE = "gkm.io.gkmcachenode/finalizer"
    CLUSTER_GKM_CACHE = "gkm.io.clustergkmcachenode/finalizer"


class ConditionType(enum.StrEnum):
    """Conditions of a cache."""

    RESOLVED = "Resolved"
    """The image names a digest of a readable cache image."""
    VERIFIED = "Verified"
    """A policy allows that digest; Unknown where no policy judged it, which does not make Ready false."""
    DELIVERED = "Delivered"
    """The objects through which pods get the cache exist."""
    READY = "Ready"
    """Every node that should have the cache has it."""


class Reason(enum.StrEnum):
    """Reasons of conditions that no error explains; where one does, its class's `reason` stands instead."""

    RESOLVED = "Resolved"
    RESOLVING = "Resolving"
    """The registry is being asked."""
    VERIFIED = "Verified"
    NOT_JUDGED = "NotJudged"
    """There is no digest yet that a policy could judge."""
    NO_POLICY = "NoPolicy"
    """No trust policy names the image; the install-wide default applied."""
    DELIVERED = "Delivered"
    DELIVERING = "Delivering"
    """The objects are made, and Kubernetes has not bound them all yet."""
    DELIVERED_BY_CSI = "DeliveredByCSI"
    """Delivered, but by CSI: the delivery that was asked for is not available."""
    FOREIGN_CLAIM = "ForeignClaim"
    """A PVC of the cache's name exists and is not this cache's; it is left alone."""
    NAMESPACE_TERMINATING = "NamespaceTerminating"
    """A workload namespace is being deleted."""
    NO_NAMESPACE = "NoNamespace"
    """A workload namespace does not exist (yet)."""
    EVERY_NAMESPACE = "EveryNamespace"
    """A ClusterGKMCache without workload namespaces: inline CSI from everywhere, no PVCs."""
    STAGED = "Staged"
    """Every node that should have the cache has it."""
    STAGING = "Staging"
    """Some nodes are on their way."""
    ON_DEMAND = "OnDemand"
    """Nodes stage the cache at the first pod that asks for it."""
    NOT_RESOLVED = "NotResolved"
    """There is no digest that nodes could stage."""
    NO_COMPATIBLE_NODE = "NoCompatibleNode"
    """No node has a GPU that the cache fits."""
    NODE_ERROR = "NodeError"
    """Staging failed on some nodes; their reports say why."""
    DELETING = "Deleting"
    """Deleted, and held until the last pod lets go."""


class EventReason(enum.StrEnum):
    """Reasons of Events, upstream's words."""

    CREATED = "Created"
    CACHE_USED = "CacheUsed"
    CACHE_RELEASE = "CacheRelease"
    DELETING = "Deleting"
