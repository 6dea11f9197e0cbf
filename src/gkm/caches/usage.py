"""Hits and misses of one mount: what the workload opened, and what it had to make.

A *hit* is an entry of the cache whose payload was opened and was not made again. A *miss* is an entry that
the workload made, also where the cache had it (read, then made again: one miss). Locks, temporary files and
copies made by the kernel are neither; launchers and driver utilities are counted apart.
"""

from collections.abc import Collection
from pathlib import Path

import msgspec

from gkm.caches.differences import Nearest
from gkm.caches.model import Entry, Inventory, Target, Toolchain
from gkm.caches.scan import scan_tree
from gkm.caches.tree import Tree
from gkm.caches.upper import added_files, made_files
from gkm.caches.walk import TreeLimits


class MissedEntry(msgspec.Struct, frozen=True, rename="camel"):
    """An entry that the workload had to make although a cache was mounted."""

    path: str
    """Its directory or file below the mount, see `Entry.path`."""
    name: str
    format: str
    targets: tuple[Target, ...]
    toolchain: Toolchain
    differences: tuple[str, ...]
    """What sets it apart from the cache's nearest entry of the same name, for people; never empty."""


class Usage(msgspec.Struct, frozen=True, rename="camel"):
    """What one workload used of a mounted cache."""

    hits: int
    misses: int
    hit: tuple[str, ...]
    """The paths of the entries that were hit, sorted."""
    missed: tuple[MissedEntry, ...]
    """Sorted by path."""
    helpers_opened: int
    """Launchers and driver utilities of the cache that the workload loaded."""


def count(
    inventory: Inventory,
    opened: Collection[str],
    upper: Path,
    lower: Path,
    limits: TreeLimits | None = None,
) -> Usage:
    """Count the hits and misses of a workload that has ended.

    `inventory` and `lower` are those of the sealed tree that was mounted (after a cold start an inventory
    without formats, and a directory that may not exist); `opened` are the relative paths that it opened;
    `upper` is the hostile directory with what it wrote, whose unreadable parts are passed over.

    Raises:
        TreeTooLargeError: the upper exceeds `limits`; no count is then known.
        TreeReadError: `upper` itself cannot be listed.
    """
    made = made_files(upper, lower, limits)
    cached = {entry.path: entry for entry in inventory.entries}
    missed = {entry.path: entry for entry in scan_tree(made).entries}
    for entry in cached.values():
        if not made.files.keys().isdisjoint(entry.payload):
            missed.setdefault(entry.path, entry)
    helpers = [entry for found in inventory.formats for entry in found.entries if entry.helper]
    seen = set(opened)
    hit = sorted(
        path for path, entry in cached.items() if path not in missed and not seen.isdisjoint(entry.payload)
    )
    nearest = Nearest(Tree.of(lower, inventory.files), cached.values())
    entries = [_missed(made, entry, nearest) for _, entry in sorted(missed.items())]
    return Usage(
        hits=len(hit),
        misses=len(entries),
        hit=tuple(hit),
        missed=tuple(entries),
        helpers_opened=sum(not seen.isdisjoint(entry.payload) for entry in helpers),
    )


def _missed(made: Tree, entry: Entry, nearest: Nearest) -> MissedEntry:
    return MissedEntry(
        path=entry.path,
        name=entry.name,
        format=entry.format,
        targets=entry.targets,
        toolchain=entry.toolchain,
        differences=nearest.differences(made, entry),
    )


__all__ = ["MissedEntry", "Usage", "added_files", "count"]
