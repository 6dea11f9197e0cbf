"""What goes wrong when a host is asked for its GPUs."""

from gkm.base.errors import GKMError, UsageError


class GPUDetectionError(GKMError):
    """A driver is there but does not answer as it should; the cause is chained and named in the message."""


class UnknownProductError(UsageError):
    """A simulated GPU was asked for by a name that is not in the table of products."""
