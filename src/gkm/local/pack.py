"""A cache directory becomes a cache image in a registry or a layout directory."""

import asyncio
import tempfile
import time
from pathlib import Path

import msgspec

from gkm.caches.image_paths import image_path, manifests
from gkm.caches.labels import image_labels
from gkm.caches.model import Inventory
from gkm.caches.roots import NoCacheError
from gkm.caches.scan import scan
from gkm.images.open import open_repository
from gkm.images.options import ClientOptions
from gkm.images.pack import Compression, pack
from gkm.images.progress import Progress
from gkm.images.publish import publish
from gkm.images.reference import parse_reference


class PackReport(msgspec.Struct, frozen=True, rename="camel"):
    """What `gkm pack` made. `size` is what a pull transfers, in bytes: manifest, config and layers."""

    image: str
    digest: str
    size: int
    formats: tuple[str, ...]
    entries: int
    files: int
    cache_bytes: int
    """Bytes of the cache's files, unpacked."""
    seconds: float


def scan_cache(directory: Path) -> Inventory:
    """The inventory of `directory`.

    Raises:
        NoCacheError: no format recognises anything below it.
        UsageError: it is not a directory, or holds links or devices that a cache image cannot carry.
    """
    inventory = scan(directory)
    if not inventory.formats:
        raise NoCacheError(
            f"{directory}: no kernel cache found (Triton, TorchInductor or vLLM); "
            "name the directory that TRITON_CACHE_DIR, TORCHINDUCTOR_CACHE_DIR or VLLM_CACHE_ROOT pointed to"
        )
    return inventory


async def pack_directory(
    directory: Path,
    image: str,
    *,
    compression: Compression = "zstd",
    options: ClientOptions | None = None,
    progress: Progress | None = None,
) -> PackReport:
    """Pack the cache at `directory` and write it to the reference `image`.

    The same tree gives the same digest whatever the destination (contracts.md, "Cache images"), so nothing
    of `image` enters the bytes. Raises `UsageError` for a directory or reference that cannot be used,
    `GKMError` for a destination that fails, `OSError` where files cannot be read.
    """
    started = time.monotonic()
    reference = parse_reference(image)
    inventory = await asyncio.to_thread(scan_cache, directory)
    files: dict[str, Path | bytes] = {name: directory / path for path, name in image_path(inventory).items()}
    files |= manifests(inventory)
    with tempfile.TemporaryDirectory(prefix="gkm-pack-") as scratch:
        packed = await asyncio.to_thread(
            pack,
            files,
            labels=image_labels(inventory),
            title=_title(inventory),
            compression=compression,
            into=Path(scratch),
        )
        async with open_repository(reference, options or ClientOptions()) as repository:
            await publish(packed, repository, reference, progress=progress)
    return PackReport(
        image=str(reference),
        digest=packed.digest,
        size=packed.size,
        formats=tuple(found.format for found in inventory.formats),
        entries=len(inventory.entries),
        files=len(inventory.files),
        cache_bytes=inventory.bytes,
        seconds=round(time.monotonic() - started, 3),
    )


def _title(inventory: Inventory) -> str:
    """A title for registries' web pages, made from the content so that it never changes the digest."""
    formats = ", ".join(sorted({found.format for found in inventory.formats}))
    archs = ", ".join(sorted({target.arch for target in inventory.targets}))
    return f"{formats} kernel cache for {archs}" if archs else f"{formats} kernel cache"
