"""Damaged trees, out of the way: what uses one goes on using it, what comes next gets a fresh one."""

import secrets
from pathlib import Path

from gkm.base.files import sync_directory
from gkm.store.found import digests_in_use, find_mounts
from gkm.store.layout import Layout
from gkm.store.locks import locked
from gkm.store.trash import throw_away


def set_aside(layout: Layout, digest: str) -> bool:
    """Take the tree of `digest` out of use, so that it is staged again; False where there is none.

    Views that were made of it keep their files: a mount holds its directories, not their names. Blocks while
    `digest` is being staged. Raises `OSError`.
    """
    with locked(layout.digest_lock(digest)):
        tree = layout.tree(digest)
        if not tree.exists():
            return False
        layout.damaged.mkdir(mode=0o700, exist_ok=True)
        tree.rename(layout.damaged / f"{tree.name}.{secrets.token_hex(4)}")
        sync_directory(layout.damaged)
        sync_directory(layout.trees)
        return True


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
