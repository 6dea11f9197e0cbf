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
from gkm.store.sealed import SealedTree, read_tree
from gkm.store.trash import throw_away


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
