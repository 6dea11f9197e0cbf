"""What a cache is: formats, entries, targets, what cannot be relocated, what its image claims."""

import msgspec

from gkm.caches.model import FormatInventory, Target
from gkm.local.load import LoadedCache


class Inspection(msgspec.Struct, frozen=True, rename="camel"):
    """The document of `gkm inspect`. Image facts are null for a plain directory."""

    cache: str
    digest: str | None
    size: int | None
    """Bytes that a pull transfers."""
    bytes: int
    """Bytes of the cache's files."""
    files: int
    formats: tuple[FormatInventory, ...]
    targets: tuple[Target, ...]
    labels: dict[str, str] | None


def inspect_cache(name: str, cache: LoadedCache) -> Inspection:
    """The facts of a loaded cache."""
    image = cache.image
    transferred = None
    if image is not None:
        blobs = (image.manifest.config, *image.manifest.layers)
        transferred = image.descriptor.size + sum(blob.size for blob in blobs)
    return Inspection(
        cache=name,
        digest=image.descriptor.digest if image else None,
        size=transferred,
        bytes=cache.inventory.bytes,
        files=len(cache.inventory.files),
        formats=cache.inventory.formats,
        targets=cache.inventory.targets,
        labels=dict(image.labels) if image else None,
    )
