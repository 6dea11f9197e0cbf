"""Journals kept in memory are those on the disk."""

from pathlib import Path

import msgspec
import pytest

from gkm.store.errors import StoreError
from gkm.store.journal import Journal, Owner, read_journal, write_journal
from gkm.store.journal_memory import JournalMemory
from gkm.store.mode import Mode

JOURNAL = Journal(
    version=1,
    mode=Mode.OVERLAY,
    target="/target",
    digest=None,
    made_directories=(),
    persistent=True,
    owner=Owner(1, 2),
    boot_id="this",
)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The directories whose journals were read from the disk."""
    seen: list[Path] = []

    def reading(directory: Path) -> Journal | None:
        seen.append(directory)
        return read_journal(directory)

    monkeypatch.setattr("gkm.store.journal_memory.read_journal", reading)
    return seen


def test_a_journal_is_read_once_until_it_is_written_again(tmp_path: Path, reads: list[Path]) -> None:
    memory = JournalMemory()
    write_journal(tmp_path, JOURNAL)
    assert [memory.read(tmp_path) for _ in range(3)] == [JOURNAL] * 3
    assert reads == [tmp_path]
    # As long as the one before: neither its size nor, on a coarse clock, its time need tell them apart.
    other = msgspec.structs.replace(JOURNAL, target="/tegrat")
    for journal in (other, JOURNAL, other):
        write_journal(tmp_path, journal)
        assert memory.read(tmp_path) == journal


def test_a_journal_that_is_gone_or_damaged_is_not_remembered(tmp_path: Path) -> None:
    memory = JournalMemory()
    assert memory.read(tmp_path) is None
    write_journal(tmp_path, JOURNAL)
    assert memory.read(tmp_path) == JOURNAL
    (tmp_path / "journal.json").write_text("{")
    with pytest.raises(StoreError):
        memory.read(tmp_path)
    (tmp_path / "journal.json").unlink()
    assert memory.read(tmp_path) is None


def test_what_is_not_to_be_kept_is_forgotten(tmp_path: Path, reads: list[Path]) -> None:
    memory = JournalMemory()
    for name in "ab":
        (tmp_path / name).mkdir()
        write_journal(tmp_path / name, JOURNAL)
        memory.read(tmp_path / name)
    memory.keep({tmp_path / "a"})
    reads.clear()
    assert memory.read(tmp_path / "a") == memory.read(tmp_path / "b") == JOURNAL
    assert reads == [tmp_path / "b"]
