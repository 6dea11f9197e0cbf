"""What kubelet is told when a call cannot be done, a class for each code (CSI spec, "NodePublishVolume Errors")."""

import grpc

from gkm.base.errors import GKMError, UsageError
from gkm.kubelet.errors import CallError
from gkm.store.errors import MountBusyError, StoreFullError, TreeMissingError


class InvalidRequestError(UsageError):
    """The call itself is malformed: the pod's or the PersistentVolume's volume has to be changed."""

    reason = "InvalidVolume"


class VolumeNotFoundError(GKMError):
    """Nothing of ours is at this path."""

    reason = "VolumeNotFound"


class NotYetError(GKMError):
    """The cache is awaited, or another call is at work on the same path: kubelet tries again by itself."""

    reason = "NotYet"


class CacheAwaitedError(NotYetError):
    """A cache that is certainly there for the pod is awaited, so the pod may be told for what."""


_CODES: tuple[tuple[type[GKMError], grpc.StatusCode], ...] = (
    (InvalidRequestError, grpc.StatusCode.INVALID_ARGUMENT),
    (VolumeNotFoundError, grpc.StatusCode.NOT_FOUND),
    (NotYetError, grpc.StatusCode.ABORTED),
    # A tree that was collected between the look-up and the mount: the next look-up says what is so now.
    (TreeMissingError, grpc.StatusCode.ABORTED),
    (MountBusyError, grpc.StatusCode.ABORTED),
    (StoreFullError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (GKMError, grpc.StatusCode.INTERNAL),
)


def call_error(error: GKMError) -> CallError:
    """The answer for `error`; kubelet shows its message in the pod's events."""
    code = next(code for kind, code in _CODES if isinstance(error, kind))
    return CallError(code, str(error))
