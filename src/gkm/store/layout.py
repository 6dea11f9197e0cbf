"""The directories of a store, and the file that says it is one.

::

    version                 what made this, so that a later GKM knows how to read it
    lock                    held for the instants in which directories below appear or change owner
    trees/sha256-HEX/       sealed trees, each with its relocation layers; only the store's owner may enter
    staging/ID/             trees on their way; ID/lock is held while somebody works there
    mounts/ID/              one view each: journal, upper; ID/lock as above
    view/                   where views appear that nobody else sees: empty, unless one looks from inside
    locks/sha256-HEX        held while a digest is staged, taken into use or collected
    damaged/                trees that are not what was sealed, for as long as views use them
    trash/                  renamed here in one step, deleted at leisure

All of it is on one filesystem: every step that matters is one rename.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from gkm.base.files import sync_directory, write_atomic
from gkm.store.errors import NotAStoreError, StoreError, disk_error
from gkm.store.locks import locked

_VERSION = "gkm-store 1\n"
_FIRST_NAMES = frozenset({"version", "lock", "lost+found"})
"""What an empty or half-begun store may hold: the last one is ext4's own, where the store has a disk to itself."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Names below the root of a store; makes nothing."""

    root: Path

    @property
    def trees(self) -> Path:
        """Sealed trees, by digest."""
        return self.root / "trees"

    @property
    def staging(self) -> Path:
        """Trees on their way."""
        return self.root / "staging"

    @property
    def mounts(self) -> Path:
        """One directory for each view."""
        return self.root / "mounts"

    @property
    def view(self) -> Path:
        """Where views in mount namespaces of their own may all appear; made when it is needed."""
        return self.root / "view"

    @property
    def trash(self) -> Path:
        """What is being deleted."""
        return self.root / "trash"

    @property
    def damaged(self) -> Path:
        """What was set aside (`gkm.store.damage`); made when it is needed."""
        return self.root / "damaged"

    @property
    def lock(self) -> Path:
        """The file whose lock orders appearing and taking over."""
        return self.root / "lock"

    def tree(self, digest: str) -> Path:
        """Where the sealed tree of `digest` stands, if it does."""
        return self.trees / digest.replace(":", "-")

    def digest_lock(self, digest: str) -> Path:
        """The file whose lock orders staging, use and collection of `digest`."""
        return self.root / "locks" / digest.replace(":", "-")


def open_layout(root: Path) -> Layout:
    """The store at `root`, made if it does not exist or is an empty directory.

    Raises:
        NotAStoreError: something else is there, or a store of a version this GKM does not know.
        StoreError: it cannot be made or read.
    """
    layout = Layout(Path(os.path.realpath(root)))
    try:
        _make(layout)
    except OSError as error:
        raise disk_error(error, "opening the store", layout.root) from error
    return layout


def _make(layout: Layout) -> None:
    version = layout.root / "version"
    if layout.root.is_dir():
        _check_owner(layout.root)
    if not version.exists():
        _begin(layout, version)
    text = version.read_text(encoding="utf-8", errors="replace")
    if text != _VERSION:
        raise NotAStoreError(
            f"the store {layout.root} is of version {text.strip()[:40]!r}, this GKM reads {_VERSION.strip()!r};"
            " use the GKM that made it, or choose another directory"
        )
    if not layout.trash.is_dir():
        with locked(layout.lock):
            # Views are entered by other users' processes on their way to a mount point; all else is private.
            for path in (layout.mounts, layout.trees, layout.staging, layout.root / "locks", layout.trash):
                path.mkdir(exist_ok=True)
                _own(path, others_may_pass=path == layout.mounts)
        sync_directory(layout.root)


def _begin(layout: Layout, version: Path) -> None:
    """Make an empty or half-begun directory a store: the version first, all else follows from it."""
    layout.root.mkdir(parents=True, exist_ok=True)
    strangers = [p.name for p in layout.root.iterdir() if not _is_ours(p.name)]
    if strangers and not version.exists():
        raise NotAStoreError(
            f"{layout.root} is not a store: it holds {min(strangers)!r}; choose another directory"
        )
    _own(layout.root, others_may_pass=True)
    with locked(layout.lock):
        for path in layout.root.glob(".version.*"):
            path.unlink()  # whoever was writing it is dead, or would hold the lock
        if not version.exists():
            write_atomic(version, _VERSION.encode())


def _is_ours(name: str) -> bool:
    return name in _FIRST_NAMES or name.startswith(".version.")


def _check_owner(path: Path) -> None:
    owner = path.stat().st_uid
    if owner != os.geteuid():
        raise StoreError(f"{path} belongs to uid {owner}: use a store of your own (--store, GKM_STORE)")


def _own(path: Path, *, others_may_pass: bool) -> None:
    """Give `path` the owner's group and no more rights than needed.

    A parent with the setgid bit hands its group down, and overlay in a user namespace fails with EOVERFLOW
    on the first write where a layer's group is not the user's own.
    """
    os.chown(path, -1, os.getegid())
    path.chmod(0o711 if others_may_pass and os.geteuid() == 0 else 0o700)
