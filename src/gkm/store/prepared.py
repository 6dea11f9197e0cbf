"""A view of a sealed tree, as files.

::

    mounts/ID/journal.json      what this is, written first
    mounts/ID/lock              held while its owner lives
    mounts/ID/view/             where it appears, unless the caller names a target
    mounts/ID/private/upper/    what the workload adds or changes
    mounts/ID/private/work/     overlay's own
    mounts/ID/private/layer/    a relocation layer that no other view can use; empty below one that starts cold
"""

from dataclasses import dataclass
from pathlib import Path

from gkm.store.claims import Claim
from gkm.store.journal import Journal
from gkm.store.layers import layers_of, read_layer
from gkm.store.layout import Layout
from gkm.store.mode import Mode
from gkm.store.overlay import Overlay
from gkm.store.sealed import SealedTree


@dataclass(frozen=True)
class PreparedMount:
    """A view that is ready to be attached. Belongs to this process until `discard`."""

    layout: Layout
    claim: Claim
    journal: Journal
    tree: SealedTree | None

    @property
    def directory(self) -> Path:
        """Its place in the store."""
        return self.claim.path

    @property
    def mode(self) -> Mode:
        """How it is, or will be, made."""
        return self.journal.mode

    @property
    def target(self) -> Path:
        """Where the workload sees it: absolute, without links. Frameworks' variables point here."""
        return Path(self.journal.target)

    @property
    def upper(self) -> Path:
        """What the workload added or changed; in mode ``copy`` only once detached. Hostile content."""
        return self.journal.upper(self.directory)

    @property
    def work(self) -> Path:
        """Overlay's own directory."""
        return self.journal.private_directory(self.directory) / "work"

    @property
    def layer(self) -> Path:
        """What lies above the tree and is this view's alone; it may not exist."""
        return self.directory / "private" / "layer"

    @property
    def lower(self) -> Path:
        """What the workload found, with the paths of the image: to compare `upper` with."""
        return self.layer if self.tree is None else self.tree.path

    @property
    def lowers(self) -> tuple[Path, ...]:
        """The layers below the upper, top first."""
        below: tuple[Path, ...] = (self.layer,) if self.layer.is_dir() else ()
        if self.tree is None:
            return below
        if self.journal.layer is not None:
            shared = read_layer(layers_of(self.tree.directory) / self.journal.layer)
            below += () if shared is None else shared.lower_directories()
        return below + self.tree.lower_directories()

    @property
    def overlay(self) -> Overlay:
        """The mount to be made."""
        lowers = tuple(str(path) for path in self.lowers)
        return Overlay(str(self.target), lowers, str(self.upper), str(self.work))

    @property
    def payload(self) -> frozenset[str]:
        """The files whose opening shows a hit, helpers' included."""
        formats = () if self.tree is None else self.tree.inventory.formats
        return frozenset(path for found in formats for entry in found.entries for path in entry.payload)
