"""Which image of an index is meant."""

import platform

from gkm.images.errors import UnsupportedImageError
from gkm.images.media import INDEX_TYPES, MANIFEST_TYPES, Descriptor, Index, Platform, decode_index
from gkm.images.repository import Repository

# What Linux calls a machine, and what Go, whose words the image-spec uses, calls it (image-index.md, GOARCH).
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}

# BuildKit puts provenance beside images as manifests of this kind, for no platform anyone has.
_ATTESTATION = ("vnd.docker.reference.type", "attestation-manifest")


def host_architecture(machine: str | None = None) -> str:
    """This host's architecture in the image-spec's words; `machine` as uname(2) has it, for another host."""
    machine = machine or platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def select_image(index: Index, architecture: str) -> Descriptor:
    """The single image of `index`, else the first for Linux on `architecture`.

    Raises:
        UnsupportedImageError: there is none; the message lists what there is.
    """
    images = [d for d in index.manifests if d.media_type in MANIFEST_TYPES and not _is_attestation(d)]
    if len({d.digest for d in images}) == 1:
        return images[0]
    for descriptor in images:
        if descriptor.platform and (descriptor.platform.os, descriptor.platform.architecture) == (
            "linux",
            architecture,
        ):
            return descriptor
    there = ", ".join(_platform_text(d.platform) for d in images) or "no image at all"
    raise UnsupportedImageError(
        f"the image has no variant for linux/{architecture}, but {there}: name the one you want by its digest"
    )


async def narrow(repository: Repository, descriptor: Descriptor) -> Descriptor:
    """`descriptor` itself if it is an image, else the image of that index which this host would use.

    The result is bare of annotations and platform: what an index says about an image is not the image's.

    Raises:
        UnsupportedImageError: no image for this host, or neither image nor index.
    """
    if descriptor.media_type in INDEX_TYPES:
        index = decode_index(await repository.read_manifest(descriptor))
        descriptor = select_image(index, host_architecture())
    if descriptor.media_type not in MANIFEST_TYPES:
        raise UnsupportedImageError(f"{descriptor.media_type!r} is neither an image manifest nor an index")
    return Descriptor(media_type=descriptor.media_type, digest=descriptor.digest, size=descriptor.size)


def _is_attestation(descriptor: Descriptor) -> bool:
    key, value = _ATTESTATION
    return descriptor.annotations.get(key) == value


def _platform_text(found: Platform | None) -> str:
    return f"{found.os}/{found.architecture}" if found else "an unnamed platform"
