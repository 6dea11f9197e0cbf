"""Why files cannot be packed."""

from gkm.base.errors import GKMError, UsageError


class UnpackableError(UsageError):
    """What should be packed would be refused when unpacked: a name, too many files, nothing at all."""

    reason = "NotPackable"


class SourceChangedError(GKMError):
    """A file changed or went away while it was packed: the cache is in use."""
