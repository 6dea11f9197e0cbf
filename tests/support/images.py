"""Small images made of given bytes, for tests of what carries them."""

from dataclasses import dataclass
from pathlib import Path

from gkm.base.digests import digest_bytes
from gkm.images import media
from gkm.images.media import Descriptor
from gkm.images.repository import Repository


@dataclass(frozen=True)
class SmallImage:
    """An image in memory: its manifest and the blobs it names."""

    manifest: bytes
    blobs: dict[str, bytes]

    @property
    def digest(self) -> str:
        return digest_bytes(self.manifest)

    @property
    def descriptor(self) -> Descriptor:
        return describe(self.manifest, media.OCI_MANIFEST)

    @property
    def layers(self) -> tuple[Descriptor, ...]:
        return media.decode_manifest(self.manifest).layers


def describe(data: bytes, media_type: str = media.OCI_LAYER) -> Descriptor:
    """The descriptor of `data`."""
    return Descriptor(media_type=media_type, digest=digest_bytes(data), size=len(data))


def small_image(*layers: bytes, labels: dict[str, str] | None = None) -> SmallImage:
    """An OCI image of `layers` (any bytes: nobody unpacks them) and `labels`."""
    config = media.encode(
        media.ImageConfig(
            architecture="amd64",
            os="linux",
            config=media.ContainerConfig(labels=labels),
            rootfs=media.RootFS(diff_ids=tuple(digest_bytes(layer) for layer in layers)),
        )
    )
    manifest = media.encode(
        media.Manifest(
            schema_version=2,
            media_type=media.OCI_MANIFEST,
            config=describe(config, media.OCI_CONFIG),
            layers=tuple(describe(layer) for layer in layers),
        )
    )
    return SmallImage(manifest, {digest_bytes(data): data for data in (config, *layers)})


async def store(repository: Repository, image: SmallImage, directory: Path, tag: str | None) -> Descriptor:
    """Write `image` to `repository` through files in `directory`."""
    for number, data in enumerate(image.blobs.values()):
        file = directory / f"blob-{number}"
        file.write_bytes(data)
        await repository.write_blob(describe(data), file)
    return await repository.write_manifest(image.manifest, media.OCI_MANIFEST, tag)


async def read(repository: Repository, descriptor: Descriptor) -> bytes:
    """All bytes of a blob."""
    async with repository.open_blob(descriptor) as chunks:
        return b"".join([chunk async for chunk in chunks])
