"""The store as its owner sees it: what is in it, whether it is intact, what can go."""

from collections import Counter

import msgspec

from gkm.store.sealed import Damage, SealedTree
from gkm.store.store import Store


class TreeFacts(msgspec.Struct, frozen=True, rename="camel"):
    """One sealed tree in `gkm store ls`."""

    digest: str
    image: str | None
    formats: tuple[str, ...]
    entries: int
    files: int
    bytes: int
    mounts: int


class StoreListing(msgspec.Struct, frozen=True, rename="camel"):
    """The document of `gkm store ls`."""

    store: str
    trees: tuple[TreeFacts, ...]


class TreeCheck(msgspec.Struct, frozen=True, rename="camel"):
    """One tree in `gkm store verify`."""

    digest: str
    intact: bool
    files: int
    damaged: tuple[Damage, ...]


class VerifyReport(msgspec.Struct, frozen=True, rename="camel"):
    """The document of `gkm store verify`."""

    store: str
    trees: tuple[TreeCheck, ...]


class CollectReport(msgspec.Struct, frozen=True, rename="camel"):
    """The document of `gkm store gc`."""

    store: str
    removed: tuple[TreeFacts, ...]
    trees: tuple[TreeFacts, ...]
    """What stayed."""


def list_trees(store: Store) -> StoreListing:
    """All sealed trees, the newest first."""
    mounts = Counter(mount.journal.digest for mount in store.mounts() if mount.owned or mount.mounted)
    return StoreListing(
        store=str(store.root), trees=tuple(_facts(t, mounts[t.digest]) for t in store.trees())
    )


def verify_trees(store: Store) -> VerifyReport:
    """Read every file again and compare with what was sealed."""
    checks = []
    for tree in store.trees():
        damaged = store.verify(tree.digest)
        checks.append(
            TreeCheck(digest=tree.digest, intact=not damaged, files=tree.record.files, damaged=damaged)
        )
    return VerifyReport(store=str(store.root), trees=tuple(checks))


def collect_garbage(store: Store) -> CollectReport:
    """Delete every tree that no view uses."""
    before = {tree.digest: _facts(tree, 0) for tree in store.trees()}
    collected = store.collect()
    return CollectReport(
        store=str(store.root),
        removed=tuple(before[digest] for digest in collected.removed if digest in before),
        trees=list_trees(store).trees,
    )


def _facts(tree: SealedTree, mounts: int) -> TreeFacts:
    return TreeFacts(
        digest=tree.digest,
        image=tree.image,
        formats=tuple(found.format for found in tree.inventory.formats),
        entries=len(tree.inventory.entries),
        files=tree.record.files,
        bytes=tree.bytes,
        mounts=mounts,
    )
