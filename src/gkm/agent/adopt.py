"""Taking over a tree that gkm-extract sealed in a store of its own: checked, made root's, and put in place.

The child is dead by then, so nothing changes while it is looked at. Still what it left is not believed: the walk
goes by directory descriptors and follows no link, and only regular files and directories are taken.
"""

import os
from pathlib import Path

from gkm.agent.errors import TreeRefusedError
from gkm.base.files import sync_directory
from gkm.store.layout import Layout
from gkm.store.relocated import layer_limit
from gkm.store.sealed import Relocatable, SealedTree, read_tree
from gkm.store.trash import throw_away

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEPTH = 128
"""Levels of directories: more than an image may have (`gkm.images.limits`), less than a process may have open."""
_RECORDS = 1
_RECORDS_BYTES = 64 << 10
"""What a layer holds beside its files: `gkm.store.layers`."""


def adopt(layout: Layout, child: Layout, digest: str) -> SealedTree:
    """Move the tree of `digest` out of the store `child` into `layout`, whose lock of that digest is held.

    Both are on one filesystem. Blocks.

    Raises:
        TreeRefusedError: there is none, or it is not what staging makes.
        StoreError: its record is damaged.
        OSError: the disk failed.
    """
    source = child.tree(digest)
    _take_over(source)
    tree = read_tree(source)
    if tree is None or tree.digest != digest:
        raise TreeRefusedError(f"gkm-extract left no sealed tree of {digest}: staged again later")
    final = layout.tree(digest)
    throw_away(layout, final)  # there is none, but for what was damaged by hand
    source.rename(final)
    sync_directory(layout.trees)
    return SealedTree(final, tree.record)


def take_over_layer(directory: Path, relocatable: Relocatable) -> None:
    """Make the relocation layer that a child left in `directory` this process's own. Blocks.

    Raises:
        TreeRefusedError: there is none, or it is more than a layer of a tree with `relocatable` can be.
        OSError: the disk failed.
    """
    _take_over(directory)
    most = relocatable.files + _RECORDS, layer_limit(relocatable) + _RECORDS_BYTES
    files = size = 0
    for _, _, names, fd in os.fwalk(directory, follow_symlinks=False):
        for name in names:
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            files, size = files + 1, size + status.st_size
            # A second name elsewhere could be written through.
            if files > most[0] or size > most[1] or status.st_nlink != 1:
                raise TreeRefusedError(f"gkm-extract left more than a relocation layer: {name!r}")


def _take_over(directory: Path) -> None:
    """Make `directory` and all below it this process's own, which also clears setuid and setgid bits."""
    try:
        fd = os.open(directory, _DIRECTORY)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise TreeRefusedError(
            f"gkm-extract left no directory {directory.name}: staged again later"
        ) from error
    _take_over_all(fd, os.geteuid(), os.getegid(), 0)


def _take_over_all(fd: int, uid: int, gid: int, depth: int) -> None:
    """Take over the directory `fd`, which is so deep, and close it."""
    try:
        if depth > _DEPTH:
            raise TreeRefusedError(f"gkm-extract left more than {_DEPTH} levels of directories")
        os.fchown(fd, uid, gid)
        with os.scandir(fd) as entries:
            for entry in entries:
                # What a name is comes with the listing; nothing changes it now.
                if entry.is_dir(follow_symlinks=False):
                    _take_over_all(os.open(entry.name, _DIRECTORY, dir_fd=fd), uid, gid, depth + 1)
                elif entry.is_file(follow_symlinks=False):
                    os.chown(entry.name, uid, gid, dir_fd=fd, follow_symlinks=False)
                else:
                    raise TreeRefusedError(
                        f"gkm-extract left {entry.name!r}, which is no regular file: staged again later"
                    )
    finally:
        os.close(fd)
