"""Taking over a tree that gkm-extract sealed in a store of its own: checked, made root's, and put in place.

The child is dead by then, so nothing changes while it is looked at. Still what it left is not believed: the walk
goes by directory descriptors and follows no link, and only regular files and directories are taken.
"""

import os
import stat
from pathlib import Path

from gkm.agent.errors import TreeRefusedError
from gkm.base.files import sync_directory
from gkm.store.layout import Layout
from gkm.store.relocated import layer_limit
from gkm.store.sealed import Relocatable, SealedTree, read_tree
from gkm.store.trash import throw_away

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
    if not stat.S_ISDIR(_mode(directory)):
        raise TreeRefusedError(f"gkm-extract left no directory {directory.name}: staged again later")
    uid, gid = os.geteuid(), os.getegid()
    for _, directories, files, fd in os.fwalk(directory, follow_symlinks=False):
        os.fchown(fd, uid, gid)
        for name in (*directories, *files):
            mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise TreeRefusedError(
                    f"gkm-extract left {name!r}, which is no regular file: staged again later"
                )
        for name in files:
            os.chown(name, uid, gid, dir_fd=fd, follow_symlinks=False)


def _mode(path: Path) -> int:
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return 0
