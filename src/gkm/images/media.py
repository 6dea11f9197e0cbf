"""The documents of an image: descriptors, manifests, indexes and configs (OCI image-spec v1.1).

Docker's v2 schema 2 documents have the same shape under other media types and are read as well. Decoding is
strict about what GKM relies on (digests, sizes, lists) and silent about what it does not know.
"""

from typing import Annotated, Literal, TypeVar

import msgspec

from gkm.images.errors import MalformedImageError, UnsupportedImageError

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar"
OCI_LAYER_GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
OCI_LAYER_ZSTD = "application/vnd.oci.image.layer.v1.tar+zstd"

DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
DOCKER_LAYER = "application/vnd.docker.image.rootfs.diff.tar"
DOCKER_LAYER_GZIP = "application/vnd.docker.image.rootfs.diff.tar.gzip"

MANIFEST_TYPES = frozenset({OCI_MANIFEST, DOCKER_MANIFEST})
"""Media types of one image's manifest."""
INDEX_TYPES = frozenset({OCI_INDEX, DOCKER_INDEX})
"""Media types of a list of manifests."""

TITLE = "org.opencontainers.image.title"
REF_NAME = "org.opencontainers.image.ref.name"
"""The annotation that gives a manifest of a layout directory its tag (image-spec, annotations.md)."""

MAX_DOCUMENT_BYTES = 4 << 20
"""The largest manifest, index or config that is read: the limit that distribution-spec ("Pushing Manifests")
has registries support, and more than ten thousand times what one of ours has."""

Digest = Annotated[str, msgspec.Meta(pattern=r"\Asha256:[0-9a-f]{64}\Z")]
Size = Annotated[int, msgspec.Meta(ge=0)]


class Platform(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an image of an index runs on, in Go's words (image-spec, image-index.md, "platform")."""

    architecture: str = ""
    os: str = ""
    variant: str = ""


class Descriptor(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Names one blob by media type, digest and size in bytes (image-spec, descriptor.md)."""

    media_type: str
    digest: Digest
    size: Size
    annotations: dict[str, str] = {}
    artifact_type: str | None = None
    platform: Platform | None = None


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One image: its config and its layers, lowest first (image-spec, manifest.md)."""

    config: Descriptor
    layers: tuple[Descriptor, ...]
    schema_version: Literal[2]
    media_type: str | None = None
    artifact_type: str | None = None
    subject: Descriptor | None = None
    annotations: dict[str, str] = {}


class Index(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Several manifests: an image for several platforms, or all that a layout directory holds."""

    manifests: tuple[Descriptor, ...]
    schema_version: Literal[2]
    media_type: str | None = None
    artifact_type: str | None = None
    subject: Descriptor | None = None
    annotations: dict[str, str] = {}


class ContainerConfig(msgspec.Struct, frozen=True, omit_defaults=True, rename="pascal"):
    """The part of an image's config that says how to run it; GKM reads the labels alone."""

    labels: dict[str, str] | None = None


class RootFS(msgspec.Struct, frozen=True, rename={"diff_ids": "diff_ids"}):
    """The digests of the layers' uncompressed tar streams, lowest first (image-spec, config.md)."""

    diff_ids: tuple[Digest, ...] = ()
    type: str = "layers"


class ImageConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    """An image's config (image-spec, config.md), as far as GKM reads or writes it."""

    architecture: str = ""
    os: str = ""
    config: ContainerConfig | None = None
    rootfs: RootFS = RootFS()

    @property
    def labels(self) -> dict[str, str]:
        """The image's labels; empty where it has none."""
        return dict((self.config and self.config.labels) or {})


_Document = TypeVar("_Document", Manifest, Index, ImageConfig)


def encode(document: Manifest | Index | ImageConfig) -> bytes:
    """The JSON of `document`: the same bytes for the same document, always."""
    return msgspec.json.encode(document, order="sorted")


def decode_manifest(data: bytes) -> Manifest:
    """Read an image manifest.

    Raises:
        MalformedImageError: not JSON, a field missing or of the wrong type, a digest that is not sha256.
        UnsupportedImageError: Docker's schema 1, or a document that is no image manifest.
    """
    return _decode(data, Manifest, "manifest", MANIFEST_TYPES)


def decode_index(data: bytes) -> Index:
    """Read an image index. Raises like `decode_manifest`."""
    return _decode(data, Index, "index", INDEX_TYPES)


def decode_config(data: bytes) -> ImageConfig:
    """Read an image config, from JSON alone: a config has no media type of its own.

    Raises:
        MalformedImageError: not JSON, or a field of the wrong type.
    """
    return _parse(data, ImageConfig, "image config")


class _Shape(msgspec.Struct, rename="camel"):
    """As much of a manifest or index as tells the two apart."""

    schema_version: int = 0
    media_type: str | None = None
    manifests: msgspec.Raw = msgspec.Raw()
    config: msgspec.Raw = msgspec.Raw()
    layers: msgspec.Raw = msgspec.Raw()


def document_type(data: bytes, declared: str | None = None) -> str:
    """The media type of a manifest or index, from what was `declared` beside it and from its own bytes.

    A document that could be read as both is refused, as is one whose own words differ from the declared
    type: two readers would see two images under one digest (CVE-2021-41190; image-spec, manifest.md).

    Raises:
        MalformedImageError: not JSON, ambiguous, or not what was declared.
        UnsupportedImageError: neither an image manifest nor an index.
    """
    shape = _parse(data, _Shape, "manifest")
    if shape.manifests and (shape.config or shape.layers):
        raise MalformedImageError(
            "the manifest is an index and an image at once; it is not safe to read as either"
        )
    told = shape.media_type or _image_type(declared)
    if told is None:
        if shape.schema_version == 1:
            raise UnsupportedImageError(
                "the image has Docker's schema 1, which names no digests; push it again"
            )
        told = OCI_INDEX if shape.manifests else OCI_MANIFEST
    if told not in MANIFEST_TYPES | INDEX_TYPES:
        raise UnsupportedImageError(f"{told!r} is neither an image manifest nor an index")
    if _image_type(declared) not in (None, told):
        raise MalformedImageError(f"the manifest was announced as {declared!r} and says of itself {told!r}")
    return told


def _image_type(declared: str | None) -> str | None:
    """`declared` without parameters, or None where it says nothing (plain HTTP servers guess)."""
    plain = (declared or "").partition(";")[0].strip().lower()
    return None if plain in ("", "application/json", "application/octet-stream", "text/plain") else plain


def _decode(data: bytes, kind: type[_Document], what: str, types: frozenset[str]) -> _Document:
    told = document_type(data)
    if told not in types:
        raise UnsupportedImageError(f"expected an image {what}, found {told!r}")
    return _parse(data, kind, f"image {what}")


_Parsed = TypeVar("_Parsed", bound=msgspec.Struct)


def _parse(data: bytes, kind: type[_Parsed], what: str) -> _Parsed:
    if len(data) > MAX_DOCUMENT_BYTES:
        raise MalformedImageError(
            f"the {what} has {len(data)} bytes; more than {MAX_DOCUMENT_BYTES} are not read"
        )
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise MalformedImageError(f"the {what} cannot be read: {error}") from error
