"""Capture: what was mounted plus what the command compiled becomes a new cache image.

Entries of the mounted cache travel on with their original bytes, not as they were relocated for the run; what
the command wrote is taken from its private upper, inside which nothing is trusted and no link is followed.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gkm.base.errors import GKMError
from gkm.caches.scan import scan
from gkm.images.options import ClientOptions
from gkm.local.errors import NotSavedError
from gkm.local.pack import PackReport, pack_directory
from gkm.store.sealed import SealedTree
from gkm.store.store import Store


class Capture(msgspec.Struct, frozen=True):
    """What a run leaves to be packed: `added` maps tree paths to the files in the upper."""

    tree: SealedTree | None
    added: Mapping[str, Path]


async def save_capture(
    capture: Capture, image: str, store: Store, options: ClientOptions
) -> PackReport | None:
    """Pack `capture`, a run's in `store`, as `image`; None where there is nothing to pack.

    Raises:
        NotSavedError: the destination failed; the capture was packed into a layout directory of the store, and
            the message names it, so that nothing compiled is lost. It stays until its owner deletes it.
    """
    if capture.tree is None and not capture.added:
        return None
    with store.scratch() as scratch:
        merged = scratch / "tree"
        _merge(capture, merged)
        root = _cache_root(merged)
        if root is None:
            return None
        try:
            return await pack_directory(root, image, options=options)
        except (GKMError, OSError) as error:
            kept = f"oci:{tempfile.mkdtemp(prefix='capture-', dir=_made(store.root / 'captures'))}:unsaved"
            await pack_directory(root, kept)
            raise NotSavedError(
                f"the capture could not be written to {image}: {error}\n"
                f"it is kept in {kept} : push it with `gkm push {kept} {image}`"
            ) from error


def _merge(capture: Capture, merged: Path) -> None:
    """A directory with the sealed tree's files (hard links where they can be) and the added ones (copies)."""
    merged.mkdir()
    if capture.tree is not None:
        for path in capture.tree.inventory.files:
            if path not in capture.added:
                _place(capture.tree.path / path, merged / path, link=True)
    for path, source in capture.added.items():
        _place(source, merged / path, link=False)


def _place(source: Path, target: Path, *, link: bool) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if link:
        try:
            os.link(source, target)
        except OSError:
            pass  # another filesystem: copied below
        else:
            return
    # Opened without following links: the upper is written by the command, and may change under us.
    fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as reader, target.open("xb") as writer:
        shutil.copyfileobj(reader, writer)
        target.chmod(os.fstat(reader.fileno()).st_mode & 0o777)


def _cache_root(merged: Path) -> Path | None:
    """Where the cache begins: a cold run's only format stands at the image's top, so that it mounts anywhere."""
    formats = scan(merged).formats
    if not formats:
        return None
    return merged / formats[0].root if len(formats) == 1 else merged


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory
