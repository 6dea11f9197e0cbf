"""`CACHE` on the command line: a cache image or a plain directory, brought to where it can be looked into.

An image is looked into by unpacking the bytes it really has, verified; what its labels claim is shown beside
them, never instead of them.
"""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from gkm.base.errors import UsageError
from gkm.caches.image_paths import tree_path
from gkm.caches.model import Inventory
from gkm.caches.scan import scan
from gkm.images.bridge import unpack_image
from gkm.images.image import Image, fetch_image
from gkm.images.limits import Limits
from gkm.images.open import open_repository
from gkm.images.options import ClientOptions
from gkm.images.progress import Progress
from gkm.images.reference import parse_reference
from gkm.local.pack import scan_cache


class LoadedCache(msgspec.Struct, frozen=True):
    """A cache that can be read at `directory` while the `load` that made it is open."""

    directory: Path
    inventory: Inventory
    image: Image | None
    """None for a plain directory."""


def is_directory(cache: str) -> bool:
    """Whether `cache` names a plain directory: something on disk that is not written as a reference.

    An OCI layout is always written ``oci:DIR``, so an existing path is a plain directory.
    """
    return not cache.startswith("oci:") and (
        Path(cache).is_dir() or cache.startswith(("/", "./", "../", "~"))
    )


async def fetch(image: str, options: ClientOptions) -> Image:
    """Manifest, config and labels of a cache image; nothing else is downloaded."""
    reference = parse_reference(image)
    async with open_repository(reference, options) as repository:
        return await fetch_image(repository, reference)


@contextlib.asynccontextmanager
async def load(
    cache: str, *, options: ClientOptions | None = None, progress: Progress | None = None
) -> AsyncIterator[LoadedCache]:
    """Make `cache` readable as a directory, an image in a temporary one that goes with the context.

    Raises:
        UsageError: neither a directory with a cache nor a reference.
        GKMError: the image cannot be had, or what came is not what its digests say.
    """
    if is_directory(cache):
        directory = Path(cache).expanduser()
        if not directory.is_dir():
            raise UsageError(f"{cache}: no such directory")
        inventory = await asyncio.to_thread(scan_cache, directory)
        yield LoadedCache(directory=directory, inventory=inventory, image=None)
        return
    reference = parse_reference(cache)
    with tempfile.TemporaryDirectory(prefix="gkm-look-") as scratch:
        tree = Path(scratch) / "tree"
        tree.mkdir()
        async with open_repository(reference, options or ClientOptions()) as repository:
            image = await fetch_image(repository, reference)
            await unpack_image(repository, image, tree, select=tree_path, limits=Limits(), progress=progress)
        inventory = await asyncio.to_thread(scan, tree)
        yield LoadedCache(directory=tree, inventory=inventory, image=image)
