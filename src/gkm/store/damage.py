"""Damaged trees, out of the way: what uses one goes on using it, what comes next gets a fresh one."""

import logging
import secrets
from pathlib import Path

from gkm.base.files import sync_directory
from gkm.store.errors import TreeDamagedError
from gkm.store.found import digests_in_use, find_mounts
from gkm.store.layout import Layout
from gkm.store.locks import locked
from gkm.store.sealed import SealedTree, read_tree
from gkm.store.trash import throw_away

_log = logging.getLogger(__name__)


def set_aside(layout: Layout, digest: str) -> None:
    """Take the tree of `digest` out of use, so that it is staged again; nothing where there is none.

    Views that were made of it keep their files: a mount holds its directories, not their names. Blocks while
    `digest` is being staged. Raises `OSError`.
    """
    with locked(layout.digest_lock(digest)):
        _move(layout, digest)


def whole_tree(layout: Layout, digest: str) -> SealedTree | None:
    """The tree of `digest`, whose lock the caller holds; None where there is none, after a damaged one was set
    aside.

    Raises:
        StoreError, OSError: the disk failed.
    """
    try:
        return read_tree(layout.tree(digest))
    except TreeDamagedError as error:
        _log.warning("%s is staged again: %s", digest, error)
        _move(layout, digest)
        return None


def _move(layout: Layout, digest: str) -> None:
    tree = layout.tree(digest)
    if tree.exists():
        layout.damaged.mkdir(mode=0o700, exist_ok=True)
        tree.rename(layout.damaged / f"{tree.name}.{secrets.token_hex(4)}")
        sync_directory(layout.damaged)
        sync_directory(layout.trees)


def collect_damaged(layout: Layout) -> None:
    """Delete what was set aside and no view can use any more. Raises `OSError`, `StoreError`."""
    if not layout.damaged.is_dir():
        return
    used = digests_in_use(find_mounts(layout))
    for path in layout.damaged.iterdir():
        if _digest(path) not in used:
            throw_away(layout, path)


def _digest(path: Path) -> str:
    return path.name.partition(".")[0].replace("-", ":", 1)
