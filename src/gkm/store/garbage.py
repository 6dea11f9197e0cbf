"""What may go: leftovers of dead processes, and trees that nobody uses."""

import contextlib
import shutil
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from gkm.store.claims import Claim, abandoned, is_owned
from gkm.store.errors import StoreError
from gkm.store.journal import Journal, read_journal
from gkm.store.layout import Layout
from gkm.store.linux.mountinfo import mounts
from gkm.store.locks import trying
from gkm.store.mode import Mode
from gkm.store.overlay import is_mounted, unmount
from gkm.store.prepared import PreparedMount
from gkm.store.sealed import read_tree
from gkm.store.target import remove_directories
from gkm.store.trash import empty_trash, throw_away
from gkm.store.usetime import last_used


@dataclass(frozen=True, slots=True)
class FoundMount:
    """A view found in the store, whoever made it."""

    directory: Path
    journal: Journal
    owned: bool
    """Whether the process that made it, or its command, lives."""
    mounted: bool
    """Whether it is mounted in this process's namespace; a command's own view never is."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collection did."""

    removed: tuple[str, ...]
    """Digests of deleted trees."""
    in_use: tuple[str, ...]
    """Digests of trees that a view uses, or that are being staged or mounted at this moment."""
    bytes: int
    """The sum of the removed trees' sizes."""


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


def find_mounts(layout: Layout) -> list[FoundMount]:
    """All views in the store. Raises `StoreError` for a damaged journal."""
    found = []
    seen = mounts()
    for directory in sorted(layout.mounts.iterdir()):
        journal = read_journal(directory)
        if journal is not None:
            mounted = is_mounted(journal.target, str(journal.upper(directory)), seen)
            found.append(FoundMount(directory, journal, is_owned(directory), mounted))
    return found


def adopt(layout: Layout, found: FoundMount) -> PreparedMount:
    """A persistent view that another process made, to detach or discard it."""
    digest = found.journal.digest
    tree = None if digest is None else read_tree(layout.tree(digest))
    return PreparedMount(layout, Claim(found.directory, -1), found.journal, tree)


def collect(layout: Layout, *, keep: Collection[str], unused_seconds: float) -> Collected:
    """Delete trees that may go. Raises `OSError`, `StoreError`."""
    removed, in_use, size = [], [], 0
    newest = time.time() - unused_seconds
    for directory in sorted(layout.trees.iterdir()):
        digest = directory.name.replace("-", ":", 1)
        if digest in keep:
            continue
        with trying(layout.digest_lock(digest)) as free:
            if not free or digest in _digests_in_use(layout):
                in_use.append(digest)
                continue
            if last_used(layout, digest) > newest:
                continue
            # A tree whose record is damaged goes like any other, its size unknown.
            with contextlib.suppress(StoreError):
                tree = read_tree(directory)
                size += 0 if tree is None else tree.bytes
            throw_away(layout, directory)
        removed.append(digest)
    return Collected(tuple(removed), tuple(in_use), size)


def _digests_in_use(layout: Layout) -> frozenset[str]:
    return frozenset(
        found.journal.digest
        for found in find_mounts(layout)
        if found.journal.digest and (found.owned or found.mounted or found.journal.persistent)
    )
