"""The words that fields of the custom resources may hold, one enumeration for each such field."""

from gkm.api.wire import OpenEnum


class AccessMode(OpenEnum):
    """How a volume may be mounted; core/v1 PersistentVolumeAccessMode."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_ONLY_MANY = "ReadOnlyMany"
    READ_WRITE_MANY = "ReadWriteMany"
    READ_WRITE_ONCE_POD = "ReadWriteOncePod"


class Delivery(OpenEnum):
    """How a pod gets the cache."""

    CSI = "CSI"
    SHARED_PVC = "SharedPVC"
    NODE_PVC = "NodePVC"


class Staging(OpenEnum):
    """When a node stages the cache."""

    EAGER = "Eager"
    ON_DEMAND = "OnDemand"


class WhenUnavailable(OpenEnum):
    """What a pod does while its node has no usable cache."""

    WAIT = "Wait"
    START_COLD = "StartCold"


class PVCOwner(OpenEnum):
    """Who makes the PVCs and extraction Jobs of a cache."""

    UNKNOWN = "Unknown"
    AGENT = "Agent"
    OPERATOR = "Operator"


class Phase(OpenEnum):
    """A cache's state in one word."""

    PENDING = "Pending"
    DOWNLOADING = "Downloading"
    EXTRACTED = "Extracted"
    RUNNING = "Running"
    OUTDATED = "Outdated"
    DELETING = "Deleting"
    ERROR = "Error"
    NO_NAMESPACE = "NoNamespace"


class StageState(OpenEnum):
    """How far a node is with one digest of a cache."""

    PENDING = "Pending"
    STAGING = "Staging"
    STAGED = "Staged"
    INCOMPATIBLE = "Incompatible"
    FAILED = "Failed"
    DELETING = "Deleting"


class Verdict(OpenEnum):
    """Whether a cache fits a GPU; only Incompatible keeps it away."""

    COMPATIBLE = "Compatible"
    INCOMPATIBLE = "Incompatible"
    UNKNOWN = "Unknown"


class Observation(OpenEnum):
    """How much of what a pod read was seen."""

    COMPLETE = "complete"
    PARTIAL_OVERFLOW = "partial(Overflow)"
    PARTIAL_RESTARTED = "partial(Restarted)"
    NONE = "none"


class CacheKind(OpenEnum):
    """Which resource a grant is for."""

    GKM_CACHE = "GKMCache"
    CLUSTER_GKM_CACHE = "ClusterGKMCache"
