"""An image's small documents, read and checked: all there is to know before its layers are fetched."""

from dataclasses import dataclass

from gkm.images.errors import MalformedImageError
from gkm.images.media import (
    MAX_DOCUMENT_BYTES,
    Descriptor,
    ImageConfig,
    Manifest,
    decode_config,
    decode_manifest,
)
from gkm.images.reference import Reference
from gkm.images.repository import Repository
from gkm.images.verify import check_bytes


@dataclass(frozen=True, slots=True)
class Image:
    """One image: where its manifest is, what it says, and its config."""

    descriptor: Descriptor
    """Of the manifest; its digest is the image's identity."""
    manifest: Manifest
    config: ImageConfig

    @property
    def labels(self) -> dict[str, str]:
        """The config's labels; empty where it has none."""
        return self.config.labels

    @property
    def bytes(self) -> int:
        """What fetching all layers and the config transfers."""
        return self.manifest.config.size + sum(layer.size for layer in self.manifest.layers)


async def fetch_image(repository: Repository, reference: Reference) -> Image:
    """Resolve `reference` and read the manifest and config it leads to.

    Raises:
        RegistryError: as `Repository.resolve` and the documents' decoding do.
        MalformedImageError: the config's list of layers has another length than the manifest's, so that no
            layer could be checked once unpacked (image-spec, config.md, "rootfs").
    """
    descriptor = await repository.resolve(reference)
    manifest = decode_manifest(await repository.read_manifest(descriptor))
    if manifest.config.size > MAX_DOCUMENT_BYTES:
        raise MalformedImageError(
            f"{reference}: the image config has {manifest.config.size} bytes; "
            f"at most {MAX_DOCUMENT_BYTES} are read"
        )
    data = bytearray()
    async with repository.open_blob(manifest.config) as chunks:
        async for chunk in chunks:
            data += chunk
    config = decode_config(check_bytes(bytes(data), manifest.config))
    diff_ids = config.rootfs.diff_ids
    if diff_ids and len(diff_ids) != len(manifest.layers):
        raise MalformedImageError(
            f"{reference}: the manifest has {len(manifest.layers)} layers, the image config {len(diff_ids)}"
        )
    return Image(descriptor, manifest, config)
