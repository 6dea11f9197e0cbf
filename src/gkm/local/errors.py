"""What can go wrong in the main job, one class per case that `gkm` answers differently."""

from gkm.base.errors import GKMError


class CacheRefusedError(GKMError):
    """`--require-hit` was asked for and the cache cannot be hit: the command was not started."""


class NotSavedError(GKMError):
    """The captured image could not be written to its destination; the message says where it was kept."""
