"""Relocation: what must change in a tree so that it is hit at the path where a workload will see it.

The tree itself is never changed; the caller puts the new contents over it. New content is made by the format
that wrote the file, from what stands in the file itself: the inventory only says where to look.
"""

import posixpath
from collections.abc import Iterator
from pathlib import Path

from gkm.base.errors import UsageError
from gkm.caches.known import BY_NAME
from gkm.caches.model import Inventory
from gkm.caches.tree import ancestors, read_beneath, split

_FILE_LIMIT = 1 << 20
"""Bytes of a relocatable file; a larger one is none that a framework wrote, and stays as it is."""


class InvalidMountRootError(UsageError):
    """The path for which a tree should be relocated is not a plain absolute path."""


def check_mount_root(mount_root: str) -> str:
    """Return `mount_root` if a tree can be relocated to it: absolute, normal, free of control characters.

    Raises:
        InvalidMountRootError: it is not.
    """
    plain = mount_root.startswith("/") and posixpath.normpath(mount_root) == mount_root
    if not plain or mount_root.startswith("//") or not mount_root.isprintable():
        raise InvalidMountRootError(
            f"{mount_root!r} is not a path a cache can be relocated to: give an absolute path "
            "without '.', '..', doubled or trailing slashes, or control characters"
        )
    return mount_root


def relocate(tree: Path, inventory: Inventory, mount_root: str) -> Iterator[tuple[str, bytes]]:
    """The files of `tree` whose content changes when it stands at `mount_root`, each with its new content.

    Paths are relative, in the order of the inventory. A file that already fits is not yielded; neither is one
    of a format that this release does not know (its entries miss, as `unrelocatable` ones do).

    Raises:
        InvalidMountRootError: before anything is yielded, see `check_mount_root`.
        TreeReadError: a file that the inventory names cannot be read.
        UnsafeTreeError: the inventory names a path that is not below the tree.
    """
    return _relocate(tree, inventory, check_mount_root(mount_root))


def _relocate(tree: Path, inventory: Inventory, mount_root: str) -> Iterator[tuple[str, bytes]]:
    known = set(inventory.files)
    for directory in {split(file)[0] for file in inventory.files}:  # of few directories thousands of files
        known.add(directory)
        known.update(ancestors(directory))
    for record in (record for found in inventory.formats for record in found.relocatable):
        known_format = BY_NAME.get(record.format)
        if known_format is None:
            continue
        content = read_beneath(tree, record.file, _FILE_LIMIT + 1)
        if len(content) > _FILE_LIMIT:
            continue
        moved = known_format.rewrite(content, record.file, mount_root, known.__contains__)
        if moved is not None:
            yield record.file, moved
