"""What a workload's private upper holds that the tree below it does not.

A copy-up (overlayfs copies a file into the upper before the first write, or a change of mode or times) is no
gain. A file that was *made again* with the same bytes is: the compiler did not accept what was there. The two
are told apart by the mark that overlayfs leaves on a copy-up, and where that mark cannot be read (it needs
CAP_SYS_ADMIN) by the modification time, which a copy keeps.
"""

import os
from pathlib import Path
from types import MappingProxyType

from gkm.caches.known import relocatable_format
from gkm.caches.tree import Tree, open_beneath
from gkm.caches.walk import TreeLimits, list_upper

# Set on every copy-up (fs/overlayfs/copy_up.c, ovl_set_origin); the second in mounts with `userxattr`.
_ORIGIN = ("trusted.overlay.origin", "user.overlay.origin")
_NEUTRAL_ROOT = "/relocated"
_REWRITABLE_LIMIT = 1 << 20
_CHUNK = 1 << 18


def added_files(upper: Path, lower: Path, limits: TreeLimits | None = None) -> dict[str, Path]:
    """The files whose content a workload added or changed: relative path → the file in `upper`, sorted.

    `lower` is the sealed tree below, or a directory that does not exist where there was none. A relocated
    file that differs from `lower` in nothing but its absolute paths is not changed.

    Raises:
        TreeTooLargeError: the upper exceeds `limits` (default: 200 000 entries, 64 levels, 60 seconds).
        TreeReadError: `upper` cannot be listed.
    """
    tree = list_upper(upper, limits)
    below = _lower_tree(tree, lower)
    return {path: upper / path for path in tree.files if not _same_content(tree, below, path)}


def made_files(upper: Path, lower: Path, limits: TreeLimits | None = None) -> Tree:
    """The files that a workload made: those of `added_files`, and those it made again with the same content.

    Raises as `added_files`.
    """
    tree = list_upper(upper, limits)
    below = _lower_tree(tree, lower)
    made = {
        path: file
        for path, file in tree.files.items()
        if not (_same_content(tree, below, path) and _is_copy(tree, below, path))
    }
    return Tree(upper, MappingProxyType(made), lenient=True)


def _lower_tree(tree: Tree, lower: Path) -> Tree:
    """The files of `lower` with a counterpart in the upper; a large tree is not walked for a few."""
    return Tree.of(lower, (path for path in tree.files if _is_file(lower, path)))


def _is_file(root: Path, path: str) -> bool:
    try:
        os.close(open_beneath(root, path))
    except OSError:
        return False
    return True


def _same_content(tree: Tree, below: Tree, path: str) -> bool:
    if path not in below.files:
        return False
    known = relocatable_format(path)
    if known is None:
        return _equal(tree.root, below.root, path)
    new, old = tree.read(path, _REWRITABLE_LIMIT), below.read(path, _REWRITABLE_LIMIT)
    if new is None or old is None:
        return _equal(tree.root, below.root, path)
    # Both as they would be at one and the same root: equal but for the place means equal.
    new, old = (
        known.rewrite(content, path, _NEUTRAL_ROOT, lambda _: True) or content for content in (new, old)
    )
    return new == old


def _equal(first: Path, second: Path, path: str) -> bool:
    try:
        with (
            os.fdopen(open_beneath(first, path), "rb", buffering=0) as one,
            os.fdopen(open_beneath(second, path), "rb", buffering=0) as other,
        ):
            if os.fstat(one.fileno()).st_size != os.fstat(other.fileno()).st_size:
                return False
            while piece := one.read(_CHUNK):
                if piece != other.read(len(piece)):
                    return False
            return True
    except OSError:
        return False


def _is_copy(tree: Tree, below: Tree, path: str) -> bool:
    try:
        new = open_beneath(tree.root, path)
    except OSError:
        return False
    try:
        marks = os.listxattr(new)
        if any(mark in _ORIGIN for mark in marks):
            return True
        changed = os.fstat(new).st_mtime_ns
    finally:
        os.close(new)
    old = open_beneath(below.root, path)
    try:
        return os.fstat(old).st_mtime_ns == changed
    finally:
        os.close(old)
