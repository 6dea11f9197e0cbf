"""What can go wrong between GKM and the place that holds an image.

The place is a registry or a layout directory; both raise the same classes, so that callers need not know
which one they talk to. Retrying is decided below this room's surface: an error that reaches a caller is
final.
"""

from gkm.base.errors import GKMError, UsageError


class InvalidReferenceError(UsageError):
    """Text that should name an image does not."""

    reason = "InvalidReference"


class AmbiguousReferenceError(UsageError):
    """A reference that fits several images of a layout directory."""

    reason = "AmbiguousReference"


class NotALayoutError(UsageError):
    """The directory of an ``oci:`` reference holds something else than an OCI image layout."""

    reason = "NotALayout"


class RegistryError(GKMError):
    """A registry, or the layout directory that stands in for one, could not give or take what was asked."""

    reason = "RegistryFailed"


class UnauthorizedError(RegistryError):
    """The registry wants credentials that were not there, or refused those that were (401, 403)."""


class CredentialsError(RegistryError):
    """A credentials file or credential helper that is configured cannot be used."""

    reason = "CredentialsUnusable"


class NotFoundError(RegistryError):
    """There is no such image, manifest or blob."""


class UnavailableError(RegistryError):
    """The registry cannot be reached or does not serve: no route, no answer, 429, 5xx, cut once too often."""


class BrokenStreamError(UnavailableError):
    """A response stopped in its middle, again and again; inside this room, the sign to resume it."""

    reason = "Unavailable"


class UntrustedCertificateError(UnavailableError):
    """The TLS certificate of the registry is not signed by an authority that this host trusts."""


class RefusedError(RegistryError):
    """The registry understood the request and will not do it: full, read-only, content not allowed."""


class ProtocolError(RegistryError):
    """An answer that no registry may give (OCI distribution-spec), or one that is not safe to follow."""

    reason = "RegistryProtocol"


class DigestMismatchError(RegistryError):
    """The bytes that came are not what the digest names. Never retried: the place is wrong, or lies."""


class SizeMismatchError(RegistryError):
    """More or fewer bytes came than the descriptor promises. Never retried."""


class MalformedImageError(RegistryError):
    """A manifest, index or config that is not what the OCI image-spec says it is."""


class UnsupportedImageError(RegistryError):
    """A well-formed image that GKM has no use for: no manifest for this platform, an unknown media type."""
