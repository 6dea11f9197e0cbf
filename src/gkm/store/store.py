"""The store of one node or one user: sealed trees, views of them, and cleaning up."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gkm.base.digests import check_digest
from gkm.images.image import Image
from gkm.images.limits import Limits
from gkm.images.progress import Progress
from gkm.images.repository import Repository
from gkm.store import garbage
from gkm.store.attach import detach
from gkm.store.claims import claim
from gkm.store.errors import TreeMissingError, disk_error
from gkm.store.found import FoundMount, find_mounts
from gkm.store.garbage import Collected
from gkm.store.layers import Layer
from gkm.store.layout import Layout, open_layout
from gkm.store.modes import ModeProbe, best_mode
from gkm.store.prepare import discard
from gkm.store.relocation import relocated
from gkm.store.sealed import Damage, SealedTree, find_damage, read_tree
from gkm.store.stage import stage
from gkm.store.trash import throw_away


@dataclass(frozen=True)
class Store:
    """A directory that holds everything; nothing is kept in memory, so any number of processes share it."""

    layout: Layout

    @classmethod
    def open(cls, path: Path) -> "Store":
        """The store at `path`, made if need be. What dead processes left behind is cleared away.

        Raises:
            NotAStoreError: something else is there.
            StoreError: it cannot be read or written.
        """
        store = cls(open_layout(path))
        try:
            garbage.recover(store.layout)
        except OSError as error:
            raise disk_error(error, "clearing leftovers", store.layout.root) from error
        return store

    @property
    def root(self) -> Path:
        """Its directory, absolute and without links."""
        return self.layout.root

    def tree(self, digest: str) -> SealedTree | None:
        """The sealed tree of the image with this manifest digest, None when it is not staged.

        Raises:
            InvalidDigestError: `digest` is not a digest.
            StoreError: the tree's record is damaged.
        """
        return read_tree(self.layout.tree(check_digest(digest)))

    def trees(self) -> list[SealedTree]:
        """All sealed trees, the newest first. Raises `StoreError` when a record is damaged."""
        found = [read_tree(path) for path in self.layout.trees.iterdir()]
        return sorted((t for t in found if t is not None), key=lambda t: t.record.staged_at, reverse=True)

    async def stage(
        self,
        repository: Repository,
        image: Image,
        *,
        reference: str | None = None,
        progress: Progress | None = None,
        limits: Limits | None = None,
    ) -> SealedTree:
        """The sealed tree of `image`, fetched unless it is here; see `gkm.store.stage.stage`."""
        return await stage(self, repository, image, reference=reference, progress=progress, limits=limits)

    def verify(self, digest: str) -> tuple[Damage, ...]:
        """Read every file of a tree again; returns what is not as it was sealed.

        Raises:
            TreeMissingError: it is not in the store.
            StoreError: it cannot be read.
        """
        tree = self.tree(digest)
        if tree is None:
            raise TreeMissingError(f"{digest} is not in the store {self.root}")
        try:
            return find_damage(tree)
        except OSError as error:
            raise disk_error(error, f"verifying {digest}", self.root) from error

    def relocated(self, tree: SealedTree, root: str) -> Layer | None:
        """The relocation layer of `tree` for a view at `root`; see `gkm.store.relocation.relocated`."""
        return relocated(self.layout, tree, root)

    def mounts(self) -> list[FoundMount]:
        """All views, those of other processes too. Raises `StoreError` for a damaged journal."""
        return find_mounts(self.layout)

    def undo(self, found: FoundMount, *, lazily: bool = False) -> None:
        """Detach and discard a persistent view, whichever process made it.

        Raises:
            MountBusyError: a process still uses it, and `lazily` does not leave the mount to that one.
            StoreError: the kernel or the disk refused.
        """
        prepared = garbage.adopt(self.layout, found)
        detach(prepared, lazily=lazily)
        try:
            discard(prepared)
        except OSError as error:
            raise disk_error(error, "discarding a mount", self.root) from error

    def collect(
        self,
        *,
        keep: Collection[str] = (),
        unused_seconds: float = 0.0,
        layers_unused_seconds: float = 0.0,
    ) -> Collected:
        """Delete trees that no view uses, that are not in `keep` (digests), and that were neither staged nor
        mounted in the last `unused_seconds`; and relocation layers of the others that no view uses or used in
        the last `layers_unused_seconds`. Raises `StoreError`."""
        try:
            return garbage.collect(
                self.layout,
                keep=keep,
                unused_seconds=unused_seconds,
                layers_unused_seconds=layers_unused_seconds,
            )
        except OSError as error:
            raise disk_error(error, "collecting garbage", self.root) from error

    def probe_modes(self) -> ModeProbe:
        """How views can be made here; tried once in the life of this process. Raises `StoreError`."""
        try:
            return best_mode(self.root, self.scratch)
        except OSError as error:
            raise disk_error(error, "trying to mount", self.root) from error

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A directory for the length of a block, private to the store's owner, on the store's filesystem.

        It goes with the block, or with this process if that dies first. Raises `StoreError`.
        """
        try:
            owned = claim(self.layout, self.layout.staging)
        except OSError as error:
            raise disk_error(error, "making a directory", self.root) from error
        try:
            yield owned.path
        finally:
            throw_away(self.layout, owned.path)
            owned.close()
