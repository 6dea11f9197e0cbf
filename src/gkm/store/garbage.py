"""What may go: leftovers of dead processes, and trees that nobody uses."""

import contextlib
import shutil
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from gkm.store.claims import Claim, abandoned
from gkm.store.damage import collect_damaged
from gkm.store.errors import StoreError
from gkm.store.found import FoundMount, digests_in_use, find_mounts, layers_in_use
from gkm.store.journal import read_journal
from gkm.store.layers import all_layers, bytes_of_layers
from gkm.store.layout import Layout
from gkm.store.locks import trying
from gkm.store.mode import Mode
from gkm.store.overlay import is_mounted, unmount
from gkm.store.prepared import PreparedMount
from gkm.store.relocation import drop_idle_layers
from gkm.store.sealed import read_tree
from gkm.store.target import remove_directories
from gkm.store.trash import empty_trash, throw_away
from gkm.store.usetime import last_used


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collection did."""

    removed: tuple[str, ...]
    """Digests of deleted trees."""
    in_use: tuple[str, ...]
    """Digests of trees that a view uses, or that are being staged or mounted at this moment."""
    bytes: int
    """The sum of the sizes of what was deleted, relocation layers included."""


def recover(layout: Layout) -> None:
    """Clear away what dead processes left: half-staged trees, views, trash.

    Views that were meant to stay (`Journal.persistent`) stay. Raises `OSError`.
    """
    for claim in abandoned(layout, layout.staging):
        with contextlib.closing(claim):
            throw_away(layout, claim.path)
    for claim in abandoned(layout, layout.mounts):
        with contextlib.closing(claim):
            _recover_view(layout, claim)
    empty_trash(layout)


def _recover_view(layout: Layout, claim: Claim) -> None:
    journal = read_journal(claim.path)
    if journal is not None:
        if journal.persistent:
            return
        if is_mounted(journal.target, str(journal.upper(claim.path))):
            unmount(journal.target, lazily=True)
        made = tuple(Path(path) for path in journal.made_directories)
        if made and journal.mode is Mode.COPY:
            # The directory was made for the copy. One that was there before is left to its owner.
            shutil.rmtree(journal.target, ignore_errors=True)
        remove_directories(made)
    throw_away(layout, claim.path)


def adopt(layout: Layout, found: FoundMount) -> PreparedMount:
    """A persistent view that another process made, to detach or discard it."""
    digest = found.journal.digest
    tree = None if digest is None else read_tree(layout.tree(digest))
    return PreparedMount(layout, Claim(found.directory, -1), found.journal, tree)


def collect(
    layout: Layout, *, keep: Collection[str], unused_seconds: float, layers_unused_seconds: float = 0.0
) -> Collected:
    """Delete trees and relocation layers that may go. Raises `OSError`, `StoreError`."""
    removed, in_use, size = [], [], 0
    collect_damaged(layout)
    now = time.time()
    for directory in sorted(layout.trees.iterdir()):
        digest = directory.name.replace("-", ":", 1)
        if digest not in keep:
            with trying(layout.digest_lock(digest)) as free:
                if not free or digest in digests_in_use(find_mounts(layout)):
                    in_use.append(digest)
                elif last_used(layout, digest) <= now - unused_seconds:
                    # A tree whose record is damaged goes like any other, its size unknown.
                    with contextlib.suppress(StoreError):
                        tree = read_tree(directory)
                        size += 0 if tree is None else tree.bytes
                    size += bytes_of_layers(directory)
                    throw_away(layout, directory)
                    removed.append(digest)
                    continue
        size += _collect_layers(layout, directory, digest, now - layers_unused_seconds)
    return Collected(tuple(removed), tuple(in_use), size)


def _collect_layers(layout: Layout, tree: Path, digest: str, older_than: float) -> int:
    """Delete layers of a tree that stays; how many bytes that frees."""
    # A look without the lock first: nearly always there is nothing to do.
    if not any(use.seconds < older_than for use in all_layers(tree)):
        return 0
    with trying(layout.digest_lock(digest)) as free:
        if not free:
            return 0
        return drop_idle_layers(
            layout, tree, layers_in_use(find_mounts(layout), digest), older_than=older_than
        )
