"""What is written down about a view, so that another process can find and undo it."""

import contextlib
import os
from pathlib import Path
from typing import Literal

import msgspec

from gkm.base.files import write_atomic
from gkm.store.errors import StoreError
from gkm.store.mode import Mode

_NAME = "journal.json"


class Owner(msgspec.Struct, frozen=True, rename="camel"):
    """The process that made a view. Whether it lives is told by its lock, not by these numbers: in another
    pid namespace they mean another process."""

    pid: int
    start_ticks: int
    """Field 22 of /proc/PID/stat: with `pid` it names a process of one boot for good."""


class Journal(msgspec.Struct, frozen=True, rename="camel"):
    """One view. Written before anything is mounted; its directory's presence is the record of the rest."""

    version: Literal[1]
    mode: Mode
    target: str
    """The absolute path at which the view appears."""
    digest: str | None
    """The sealed tree below it; None for a view that started cold."""
    made_directories: tuple[str, ...]
    """Directories made so that `target` exists, outermost first."""
    persistent: bool
    """True: stays until it is discarded; False: goes with its owner."""
    owner: Owner
    boot_id: str
    """/proc/sys/kernel/random/boot_id: after a reboot no mount of an earlier boot exists any more."""
    private: str | None = None
    """Where upper and work directory lie, when not beside the journal (`gkm.store.host`)."""
    state: Literal["live", "ended", "detached"] = "live"
    """``ended``: gone from its target, to be accounted and dropped. ``detached``: gone from its target, but a
    process still uses it, so that its files stay until the next boot."""
    layer: str | None = None
    """The tree's relocation layer that it uses (`gkm.store.layers.Layer.name`)."""
    notes: dict[str, str] = {}
    """What the one who asked for the view wrote down for himself."""

    @property
    def from_this_boot(self) -> bool:
        """Whether the machine has not been rebooted since."""
        return self.boot_id == current_boot()

    def upper(self, directory: Path) -> Path:
        """The upper of the view whose journal lies in `directory`."""
        return self.private_directory(directory) / "upper"

    def private_directory(self, directory: Path) -> Path:
        """What nobody but the store's owner may enter, see `upper`."""
        return directory / "private" if self.private is None else Path(self.private)


def current_boot() -> str:
    """The random name that the kernel gives to each boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def this_process() -> Owner:
    """The calling process as an owner."""
    stat = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
    # The second field is the program's name in parentheses and may itself hold spaces and parentheses.
    after_name = stat.rpartition(") ")[2].split(" ")
    return Owner(pid=os.getpid(), start_ticks=int(after_name[19]))


def journal_path(directory: Path) -> Path:
    """The file of the journal of the view in `directory`."""
    return directory / _NAME


def write_journal(directory: Path, journal: Journal, *, durable: bool = True) -> None:
    """Put the journal into a view's directory. Raises `OSError`.

    Without `durable` it may be empty after a power cut: for a view of which nothing is left then that only the
    journal leads to.
    """
    write_atomic(directory / _NAME, msgspec.json.encode(journal), mode=0o600, durable=durable)


def read_journal(directory: Path) -> Journal | None:
    """The journal of the view in `directory`; None when it has none (yet), or one that a power cut left without its
    bytes: nothing is mounted of that view any more.

    Raises:
        StoreError: it is damaged.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        data = (directory / _NAME).read_bytes()
        if not data.strip(b"\0"):
            return None
        try:
            return msgspec.json.decode(data, type=Journal)
        except msgspec.DecodeError as error:
            raise StoreError(f"{directory / _NAME} is damaged: {error}; delete {directory}") from error
    return None
