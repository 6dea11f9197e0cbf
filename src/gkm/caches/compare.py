"""What differs between two cache directories, by entry and by file."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from gkm.caches.model import Entry, Inventory
from gkm.caches.scan import scan_tree
from gkm.caches.tree import Tree, TreeReadError, open_beneath
from gkm.caches.walk import list_tree

_CHUNK = 1 << 20


class Change(msgspec.Struct, frozen=True, rename="camel"):
    """Files that differ and belong together."""

    entry: str | None
    """The path of the entry they belong to; None for a file that belongs to none."""
    name: str
    """The entry's name, or the file's path."""
    files: tuple[str, ...]
    """The paths that differ, sorted."""


class Difference(msgspec.Struct, frozen=True, rename="camel"):
    """How one cache differs from another; all empty when their trees are the same, byte for byte.

    An entry that both have is `changed`, also where a file of it came or went.
    """

    added: tuple[Change, ...]
    removed: tuple[Change, ...]
    changed: tuple[Change, ...]


def compare(old: Path, new: Path) -> Difference:
    """What `new` added, removed and changed against `old`, both directories with or without a cache.

    Raises as `gkm.caches.scan.scan`, for either of them.
    """
    old_tree, new_tree = list_tree(old), list_tree(new)
    before, after = _Entries(scan_tree(old_tree)), _Entries(scan_tree(new_tree))
    gone = old_tree.files.keys() - new_tree.files.keys()
    come = new_tree.files.keys() - old_tree.files.keys()
    both = old_tree.files.keys() & new_tree.files.keys()
    differ = {path for path in both if not _equal(old_tree, new_tree, path)}
    added, removed, changed = [], [], []
    for entry, files in _by_entry({*gone, *come, *differ}, before, after):
        change = Change(entry.path if entry else None, entry.name if entry else files[0], files)
        if entry and before.has(entry) and after.has(entry):
            changed.append(change)
        elif come.issuperset(files):
            added.append(change)
        elif gone.issuperset(files):
            removed.append(change)
        else:
            changed.append(change)
    return Difference(tuple(added), tuple(removed), tuple(changed))


class _Entries:
    """The entries of one side, by path and by file; helpers are entries here."""

    def __init__(self, inventory: Inventory) -> None:
        entries = [entry for found in inventory.formats for entry in found.entries]
        self._paths = {entry.path for entry in entries}
        self._owners = {file: entry for entry in entries for file in entry.files}

    def has(self, entry: Entry) -> bool:
        return entry.path in self._paths

    def owner(self, file: str) -> Entry | None:
        return self._owners.get(file)


def _by_entry(
    files: Iterable[str], before: _Entries, after: _Entries
) -> Iterator[tuple[Entry | None, tuple[str, ...]]]:
    owned: dict[str, tuple[Entry, list[str]]] = {}
    for file in sorted(files):
        entry = after.owner(file) or before.owner(file)
        if entry is None:
            yield None, (file,)
        else:
            owned.setdefault(entry.path, (entry, []))[1].append(file)
    for _, (entry, paths) in sorted(owned.items()):
        yield entry, tuple(paths)


def _equal(old: Tree, new: Tree, path: str) -> bool:
    before, after = old.files[path], new.files[path]
    if before.size != after.size:
        return False
    try:
        with (
            os.fdopen(open_beneath(old.root, before.real), "rb", buffering=0) as one,
            os.fdopen(open_beneath(new.root, after.real), "rb", buffering=0) as other,
        ):
            while piece := one.read(_CHUNK):
                if piece != other.read(len(piece)):
                    return False
            return not other.read(1)
    except OSError as error:
        raise TreeReadError(
            f"cannot compare {path!r} in {old.root} and {new.root}: {error.strerror or error}"
        ) from error
