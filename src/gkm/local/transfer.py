"""Cache images between registries, layout directories, the store and plain directories."""

import asyncio
import os
import tempfile
import time
from pathlib import Path

import msgspec

from gkm.base.errors import UsageError
from gkm.base.files import remove_tree, write_atomic
from gkm.caches.image_paths import tree_path
from gkm.caches.relocation import relocate
from gkm.caches.scan import scan
from gkm.images.bridge import unpack_image
from gkm.images.copy import CopyResult, copy_image
from gkm.images.image import fetch_image
from gkm.images.limits import Limits
from gkm.images.open import open_repository
from gkm.images.options import ClientOptions
from gkm.images.progress import Progress
from gkm.images.reference import parse_reference
from gkm.store.sealed import SealedTree
from gkm.store.stage import stage as stage_image
from gkm.store.store import Store


class PullReport(msgspec.Struct, frozen=True, rename="camel"):
    """What `gkm pull` staged."""

    image: str
    digest: str
    bytes: int
    """Bytes of the sealed tree's files."""
    entries: int
    seconds: float
    already_staged: bool


class UnpackReport(msgspec.Struct, frozen=True, rename="camel"):
    """What `gkm unpack` wrote."""

    digest: str
    files: int
    bytes: int
    relocated: int
    """Files whose absolute paths were rewritten for `--relocate`."""
    seconds: float


async def push(
    source: str, destination: str, *, options: ClientOptions | None = None, progress: Progress | None = None
) -> CopyResult:
    """Copy a cache image, digest unchanged, between any two of registry and layout directory."""
    from_reference, to_reference = parse_reference(source), parse_reference(destination)
    options = options or ClientOptions()
    async with (
        open_repository(from_reference, options) as origin,
        open_repository(to_reference, options) as target,
    ):
        return await copy_image(origin, from_reference, target, to_reference, progress=progress)


async def stage(
    store: Store, image: str, *, options: ClientOptions | None = None, progress: Progress | None = None
) -> tuple[SealedTree, bool]:
    """The sealed tree of `image` in `store`, and whether it stood there before.

    A tag is resolved at the registry each time: only the digest says what is meant.
    """
    reference = parse_reference(image)
    async with open_repository(reference, options or ClientOptions()) as repository:
        fetched = await fetch_image(repository, reference)
        present = store.tree(fetched.descriptor.digest)
        if present is not None:
            return present, True
        tree = await stage_image(store, repository, fetched, reference=str(reference), progress=progress)
        return tree, False


async def pull(
    store: Store, image: str, *, options: ClientOptions | None = None, progress: Progress | None = None
) -> PullReport:
    """Stage `image` into `store`."""
    started = time.monotonic()
    tree, already = await stage(store, image, options=options, progress=progress)
    return PullReport(
        image=image,
        digest=tree.digest,
        bytes=tree.bytes,
        entries=len(tree.inventory.entries),
        seconds=round(time.monotonic() - started, 3),
        already_staged=already,
    )


async def unpack(
    image: str,
    directory: Path,
    *,
    relocate_to: str | None = None,
    options: ClientOptions | None = None,
    progress: Progress | None = None,
) -> UnpackReport:
    """Write the plain tree of `image` to `directory`, which must not exist or be empty.

    Byte for byte what was packed, unless `relocate_to` names the absolute path at which the tree will be used:
    then the paths inside are rewritten for it. All or nothing: the tree is made beside `directory` and renamed.
    """
    started = time.monotonic()
    if relocate_to is not None and not relocate_to.startswith("/"):
        raise UsageError(
            f"--relocate {relocate_to}: name the absolute path at which the workload will see the cache"
        )
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"{directory} exists and is not an empty directory; unpack into a new one")
    directory.parent.mkdir(parents=True, exist_ok=True)
    reference = parse_reference(image)
    fresh = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        async with open_repository(reference, options or ClientOptions()) as repository:
            fetched = await fetch_image(repository, reference)
            result = await unpack_image(
                repository, fetched, fresh, select=tree_path, limits=Limits(), progress=progress
            )
        relocated = 0
        if relocate_to is not None:
            relocated = await asyncio.to_thread(_relocate_in_place, fresh, relocate_to)
        # mkdtemp makes 0700; what a compiler would have made follows the caller's umask.
        umask = os.umask(0)
        os.umask(umask)
        fresh.chmod(0o777 & ~umask)
        fresh.replace(directory)
    except BaseException:
        await asyncio.to_thread(remove_tree, fresh)
        raise
    return UnpackReport(
        digest=fetched.descriptor.digest,
        files=result.files,
        bytes=result.bytes,
        relocated=relocated,
        seconds=round(time.monotonic() - started, 3),
    )


def _relocate_in_place(tree: Path, root: str) -> int:
    count = 0
    for path, data in relocate(tree, scan(tree), root):
        mode = (tree / path).stat().st_mode & 0o777
        write_atomic(tree / path, data, mode=mode)
        count += 1
    return count
