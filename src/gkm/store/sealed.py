"""A sealed tree: what staging made of a cache image, never written again."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from gkm.base.digests import digest_file
from gkm.caches.model import Inventory
from gkm.store.errors import TreeDamagedError, disk_error

FILES = "files"
_RECORD = "record.json"
INVENTORY = "inventory.json"
_LISTING = "listing.json"
_T = TypeVar("_T")


class SealedFile(msgspec.Struct, frozen=True, rename="camel"):
    """One file as it was sealed."""

    path: str
    """Relative to the tree's root."""
    digest: str
    bytes: int
    executable: bool


class Relocatable(msgspec.Struct, frozen=True, rename="camel"):
    """How much of a tree depends on the path at which it is seen."""

    files: int
    bytes: int
    """The sum of their sizes."""


class Record(msgspec.Struct, frozen=True, rename="camel"):
    """What the store knows about a tree beside its files."""

    version: Literal[1]
    digest: str
    """Of the image's manifest."""
    image: str
    """The reference it was first staged from."""
    labels: dict[str, str]
    bytes: int
    """The sum of the files' sizes; the disk holds less where files are identical."""
    files: int
    staged_at: str
    """UTC, RFC 3339."""
    relocatable: Relocatable | None = None
    """None: it was sealed before this was written down."""


@dataclass(frozen=True)
class SealedTree:
    """A tree in the store. `lower_directories` is all that mounting needs to know of how it is kept."""

    directory: Path
    record: Record

    @property
    def digest(self) -> str:
        """Of the image's manifest."""
        return self.record.digest

    @property
    def image(self) -> str:
        """The reference it was first staged from."""
        return self.record.image

    @property
    def labels(self) -> dict[str, str]:
        """The image's labels: claims of whoever packed it."""
        return self.record.labels

    @property
    def bytes(self) -> int:
        """The sum of the files' sizes."""
        return self.record.bytes

    @property
    def path(self) -> Path:
        """The files, for reading alone: what is written here reaches every later view."""
        return self.directory / FILES

    def lower_directories(self) -> tuple[Path, ...]:
        """The layers of an overlay mount, top first."""
        return (self.path,)

    @property
    def relocatable(self) -> Relocatable:
        """At most so much of it depends on the path at which it is seen; known without its inventory."""
        return self.record.relocatable or Relocatable(self.record.files, self.record.bytes)

    @cached_property
    def inventory(self) -> Inventory:
        """What `gkm.caches.scan` found in it when it was staged. Raises `StoreError` when damaged."""
        return _read(self.directory / INVENTORY, Inventory)

    def listing(self) -> tuple[SealedFile, ...]:
        """Every file with its digest, sorted by path. Raises `StoreError` when damaged."""
        return _read(self.directory / _LISTING, tuple[SealedFile, ...])


class Damage(msgspec.Struct, frozen=True, rename="camel"):
    """A file that is not as it was sealed."""

    path: str
    kind: Literal["missing", "changed", "added"]


def write_record(
    directory: Path, record: Record, inventory: Inventory, listing: tuple[SealedFile, ...]
) -> None:
    """Write beside the files what `read_tree` reads; the caller makes it durable. Raises `OSError`."""
    for name, value in ((INVENTORY, inventory), (_LISTING, listing), (_RECORD, record)):
        (directory / name).write_bytes(msgspec.json.encode(value))


def read_tree(directory: Path) -> SealedTree | None:
    """The sealed tree in `directory`, None when there is none. Raises `StoreError` when damaged."""
    if not (directory / _RECORD).is_file():
        return None
    return SealedTree(directory, _read(directory / _RECORD, Record))


def find_damage(tree: SealedTree) -> tuple[Damage, ...]:
    """Read every file of `tree` again and compare with what was sealed; empty when all is well.

    Raises `OSError` for what cannot be read at all.
    """
    expected = {file.path: file for file in tree.listing()}
    found = {
        p.relative_to(tree.path).as_posix() for p in tree.path.rglob("*") if not p.is_dir() or p.is_symlink()
    }
    damage = [Damage(path, "added") for path in found - expected.keys()]
    for path, file in expected.items():
        if path not in found:
            damage.append(Damage(path, "missing"))
        elif not _is_intact(tree.path / path, file):
            damage.append(Damage(path, "changed"))
    return tuple(sorted(damage, key=lambda d: d.path))


def _is_intact(path: Path, file: SealedFile) -> bool:
    if path.is_symlink() or not path.is_file() or path.stat().st_size != file.bytes:
        return False
    return digest_file(path) == file.digest


def decode_inventory(data: bytes) -> Inventory:
    """What stands in a tree's `INVENTORY`. Raises `TreeDamagedError`."""
    try:
        return msgspec.json.decode(data, type=Inventory)
    except msgspec.DecodeError as error:
        raise TreeDamagedError(f"a sealed tree's {INVENTORY} is damaged: {error}") from error


def _read(path: Path, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, msgspec.DecodeError) as error:
        raise TreeDamagedError(
            f"{path} is damaged ({error}): delete {path.parent} and stage the image again"
        ) from error
    except OSError as error:
        raise disk_error(error, "reading a sealed tree", path) from error
