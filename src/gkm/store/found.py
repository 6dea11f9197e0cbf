"""Views as they are found in the store, whoever made them, and what they use."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gkm.store.claims import is_owned
from gkm.store.journal import Journal, read_journal
from gkm.store.layout import Layout
from gkm.store.linux.mountinfo import mounts
from gkm.store.overlay import is_mounted


@dataclass(frozen=True, slots=True)
class FoundMount:
    """A view found in the store, whoever made it."""

    directory: Path
    journal: Journal
    owned: bool
    """Whether the process that made it, or its command, lives."""
    mounted: bool
    """Whether it is mounted in this process's namespace; a command's own view never is."""

    @property
    def in_use(self) -> bool:
        """Whether what lies below it has to stay."""
        return self.owned or self.mounted or self.journal.persistent


def find_mounts(layout: Layout) -> list[FoundMount]:
    """All views in the store. Raises `OSError`, and `StoreError` for a damaged journal."""
    found = []
    seen = mounts()
    for directory in sorted(layout.mounts.iterdir()):
        journal = read_journal(directory)
        if journal is not None:
            mounted = is_mounted(journal.target, str(journal.upper(directory)), seen)
            found.append(FoundMount(directory, journal, is_owned(directory), mounted))
    return found


def digests_in_use(views: Iterable[FoundMount]) -> frozenset[str]:
    """The digests of the trees that `views` use."""
    return frozenset(view.journal.digest for view in views if view.journal.digest and view.in_use)


def layers_in_use(views: Iterable[FoundMount], digest: str) -> frozenset[str]:
    """The names of the relocation layers of the tree of `digest` that `views` use."""
    return frozenset(
        view.journal.layer
        for view in views
        if view.journal.layer and view.journal.digest == digest and view.in_use
    )
