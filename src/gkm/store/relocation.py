"""Making relocation layers (`gkm.store.layers`), once for each path, and dropping those that nobody uses.

Making is parsing what a stranger packed, so a service has it done elsewhere (`gkm.store.relocated` in a child
without privileges, then `install_layer`); an ordinary user's command does it itself (`relocated`).
"""

import contextlib
from collections.abc import Collection
from pathlib import Path

from gkm.base.files import sync_directory
from gkm.store.claims import claim
from gkm.store.errors import StoreError, TreeDamagedError, TreeMissingError, disk_error
from gkm.store.found import find_mounts, layers_in_use
from gkm.store.layers import (
    Layer,
    all_layers,
    find_layer,
    layer_directory,
    layers_of,
    mark_layer_used,
    read_layer,
)
from gkm.store.layout import Layout
from gkm.store.locks import locked
from gkm.store.relocated import build_layer, layer_limit
from gkm.store.sealed import SealedTree
from gkm.store.trash import throw_away

MOST_IDLE = 16
"""Layers of one tree that no view uses. Pods choose the paths, so the number must have a bound; those in use
are bounded by the number of pods, and a new one is never refused for the sake of others."""


def relocated(layout: Layout, tree: SealedTree, root: str) -> Layer | None:
    """The layer of `tree` for `root`, made by this process unless it is there; None where the tree needs none.

    Raises:
        UsageError: no cache can be relocated to `root`.
        TreeDamagedError, TreeMissingError: the tree is not what was sealed, or gone.
        LayerTooLargeError, StoreFullError, StoreError: it cannot be made.
    """
    try:
        if not tree.relocatable.files:
            return None
        found = find_layer(tree, root)
        if found is not None:
            return found
        owned = claim(layout, layout.staging)
        try:
            built = owned.path / "layer"
            build_layer(tree.path, tree.inventory, root, built, limit_bytes=layer_limit(tree.relocatable))
            return install_layer(layout, tree, built, root)
        finally:
            throw_away(layout, owned.path)
            owned.close()
    except OSError as error:
        raise disk_error(error, f"relocating {tree.digest}", layout.root) from error


def install_layer(layout: Layout, tree: SealedTree, built: Path, root: str) -> Layer:
    """Put the layer in the directory `built` in its place beside `tree`, unless another was faster. Blocks.

    Layers that nobody uses give way to it, the longest unused first.

    Raises:
        TreeMissingError: the tree was collected meanwhile.
        TreeDamagedError: `built` holds no layer for `root`.
        OSError: the disk failed.
    """
    made = read_layer(built)
    if made is None or made.root != root:
        raise TreeDamagedError(f"{built} holds no relocation layer for {root}")
    with locked(layout.digest_lock(tree.digest)):
        check_present(tree, None)
        found = find_layer(tree, root)
        if found is None:
            final = layer_directory(tree.directory, root)
            layers_of(tree.directory).mkdir(mode=0o700, exist_ok=True)
            throw_away(layout, final)  # there is none, but for what was damaged by hand
            built.rename(final)
            sync_directory(final.parent)
            found = Layer(final, made.record)
        mark_layer_used(found.directory)
        # A journal that cannot be read may name any layer, so then none is dropped.
        with contextlib.suppress(StoreError):
            used = layers_in_use(find_mounts(layout), tree.digest) | {found.name}
            drop_idle_layers(layout, tree.directory, used)
    return found


def check_present(tree: SealedTree, layer: Layer | None) -> None:
    """Take note that `layer` is of use now. Call it with the lock of the tree's digest held, shared at least, and
    write the view's journal before it is let go: from then on the journal holds both.

    Raises:
        TreeMissingError: `tree` or `layer` was collected meanwhile.
        OSError: the disk failed.
    """
    if not tree.path.is_dir():
        raise TreeMissingError(f"{tree.digest} is no longer in the store: stage the image again")
    if layer is not None:
        try:
            mark_layer_used(layer.directory)
        except FileNotFoundError as error:
            raise TreeMissingError(
                f"{tree.digest} relocated to {layer.root} is no longer in the store: try again"
            ) from error


def drop_idle_layers(
    layout: Layout, tree: Path, used: Collection[str], *, older_than: float = float("-inf")
) -> int:
    """Delete layers of the tree in the directory `tree` whose names are not in `used`: those last used before
    `older_than` (seconds since the epoch), and all but the last used ones. Returns how many bytes that frees.

    Call it with the lock of the tree's digest held. Raises `OSError`.
    """
    idle = [use for use in all_layers(tree) if use.directory.name not in used]
    freed = 0
    for number, use in enumerate(idle):
        if number >= MOST_IDLE or use.seconds < older_than:
            layer = read_layer(use.directory)
            freed += 0 if layer is None else layer.bytes
            throw_away(layout, use.directory)
    return freed
