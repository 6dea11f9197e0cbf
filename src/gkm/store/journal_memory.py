"""Journals read again only once they were written again: whoever looks at all views does it for each call."""

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from gkm.store.journal import Journal, journal_path, read_journal


class _Version(NamedTuple):
    """Tells one journal's file from the next, which has another inode while the last one is there
    (`gkm.base.files.write_atomic`)."""

    inode: int
    modified_ns: int
    size: int


class JournalMemory:
    """The journals last read, by the directories of their views. For any number of threads."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[_Version, Journal]] = {}

    def read(self, directory: Path) -> Journal | None:
        """As `gkm.store.journal.read_journal`, and raises as it does."""
        try:
            status = journal_path(directory).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        # Looked at before reading: a journal that is replaced in between is read once more, never once too seldom.
        version = _Version(status.st_ino, status.st_mtime_ns, status.st_size)
        known = self._known.get(directory)
        if known is not None and known[0] == version:
            return known[1]
        journal = read_journal(directory)
        if journal is not None:
            self._known[directory] = (version, journal)
        return journal

    def keep(self, directories: Collection[Path]) -> None:
        """Forget all but the journals in `directories`."""
        for directory in [known for known in list(self._known) if known not in directories]:
            self._known.pop(directory, None)
