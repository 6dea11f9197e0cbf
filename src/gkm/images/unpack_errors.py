"""Why a layer is refused: one class, and so one stable `reason`, for each kind of danger or damage.

All are `LayerError`: the image is at fault and fetching it again changes nothing. Names from the archive
stand in messages as Python literals, cut, so that they cannot write to a terminal.
"""

from gkm.base.errors import GKMError, UsageError

_SHOWN = 200


def shown(name: str | bytes) -> str:
    """`name` as a message may hold it: control characters escaped, at most a few hundred characters."""
    text = repr(name)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


class LayerError(GKMError):
    """A layer of the image cannot be unpacked safely, or at all. Nothing of it was kept."""

    reason = "LayerRefused"


class UnsupportedLayerError(LayerError):
    """The layer's media type is none that GKM reads."""


class CorruptLayerError(LayerError):
    """The compressed stream or the archive in it is not what its format's standard says."""


class TruncatedLayerError(LayerError):
    """The stream ends before the archive does."""


class TrailingDataError(LayerError):
    """Something follows the end of the archive."""


class DiffIDMismatchError(LayerError):
    """The uncompressed bytes are not those that the image's config names (OCI image-spec, config.md)."""


class AbsolutePathError(LayerError):
    """A member's name begins with a slash."""


class PathTraversalError(LayerError):
    """A member's name climbs out with ``..``."""


class InvalidNameError(LayerError):
    """A member's name is not UTF-8, holds control characters, or has empty or ``.`` components."""


class NameTooLongError(LayerError):
    """A member's name or one of its components is longer than allowed."""


class TooDeepError(LayerError):
    """A member lies below too many directories."""


class SymbolicLinkError(LayerError):
    """A member is a symbolic link."""


class HardLinkError(LayerError):
    """A member is a hard link."""


class DeviceError(LayerError):
    """A member is a device or a named pipe."""


class SparseFileError(LayerError):
    """A member is a sparse file: its size says nothing about the space it takes."""


class UnknownMemberError(LayerError):
    """A member is of a kind that no tar standard names."""


class WhiteoutError(LayerError):
    """A member deletes a file of a lower layer (OCI image-spec, layer.md, "Whiteouts")."""


class DuplicateMemberError(LayerError):
    """Two members of one layer have one name, or would become one file; or a file and a directory do."""


class TooManyEntriesError(LayerError):
    """There are more files and directories than allowed, or more of the layers or frames that hold them."""


class TooManyBytesError(LayerError):
    """The archive is larger than allowed."""


class ExpandsTooFarError(LayerError):
    """Few compressed bytes become so many that the archive must be a bomb."""


class DestinationNotEmptyError(UsageError):
    """The directory to unpack into is there and holds something, or is no directory."""

    reason = "DestinationNotEmpty"
