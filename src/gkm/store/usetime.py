"""When a tree was last of use: the modification time of its lock file, for a sealed tree is never written."""

import os

from gkm.store.layout import Layout


def mark_used(layout: Layout, digest: str) -> None:
    """The tree of `digest` is of use now; call it with its lock held. Raises `OSError`."""
    os.utime(layout.digest_lock(digest))


def last_used(layout: Layout, digest: str) -> float:
    """Seconds since the epoch, as the filesystem's clock has them. Raises `OSError`."""
    return layout.digest_lock(digest).stat().st_mtime
