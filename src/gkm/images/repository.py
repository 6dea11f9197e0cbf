"""The one interface to a place that holds images: a repository of a registry, or a layout directory."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol, TypeAlias

from gkm.images.media import Descriptor
from gkm.images.reference import Reference

Chunks: TypeAlias = AbstractAsyncContextManager[AsyncIterator[bytes]]
"""A stream of bytes that is closed, whatever was read of it, when the ``async with`` block ends."""

BlobSource: TypeAlias = Path | Callable[[], Chunks]
"""Where a blob to write comes from: a file, or a way to open its stream, once for each attempt."""


class Repository(Protocol):
    """Reads and writes manifests and blobs by digest.

    What is read has been checked against its descriptor; what is written is there whole or not at all.
    Every method raises subclasses of `gkm.images.errors.RegistryError` for what the place does, and of
    `gkm.base.errors.UsageError` for what the caller asks. One instance serves many tasks at once.
    """

    async def resolve(self, reference: Reference) -> Descriptor:
        """The descriptor of the image manifest that `reference` names, by digest if it has one, else by tag.

        Of an index, the single image in it is taken, else the one for Linux on this host's architecture. In
        a layout directory no tag means the only image, or of several the one tagged ``latest``.

        Raises:
            NotFoundError: no such image.
            AmbiguousReferenceError: a layout directory with several images, and no tag to tell them apart.
            UnsupportedImageError: an index without an image for this platform.
        """
        ...

    async def read_manifest(self, descriptor: Descriptor) -> bytes:
        """The manifest's bytes, checked against the descriptor's size and digest."""
        ...

    def open_blob(self, descriptor: Descriptor) -> Chunks:
        """Stream a blob. A stream that breaks is resumed where it stood.

        The chunks have passed `gkm.images.verify.verified`: never more than the descriptor's size comes out,
        and the last step of the iteration raises where the digest is another. Nothing may be believed of the
        bytes before the iteration has ended without an error.
        """
        ...

    async def has_blob(self, descriptor: Descriptor) -> bool:
        """Whether the blob is there, with the descriptor's size."""
        ...

    async def write_blob(self, descriptor: Descriptor, source: BlobSource) -> None:
        """Store the blob; one that is there already is left as it is.

        Raises:
            DigestMismatchError, SizeMismatchError: `source` is not what the descriptor says.
        """
        ...

    async def mount_blob(self, descriptor: Descriptor, other: "Repository") -> bool:
        """Take the blob over from `other` without moving its bytes; False where that cannot be done."""
        ...

    async def write_manifest(self, data: bytes, media_type: str, tag: str | None) -> Descriptor:
        """Store a manifest whose blobs are there, and point `tag` at it; None leaves tags as they are."""
        ...

    async def aclose(self) -> None:
        """Close connections; the instance is of no use afterwards."""
        ...
