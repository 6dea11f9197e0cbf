"""What kernel caches does a directory hold? Formats, entries, targets, and the absolute paths inside."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from gkm.caches.format import Format
from gkm.caches.known import FORMATS
from gkm.caches.model import Entry, FormatInventory, Inventory, UnrelocatablePath
from gkm.caches.tree import Tree, ancestors
from gkm.caches.walk import TreeLimits, list_tree


def scan(root: Path, limits: TreeLimits | None = None) -> Inventory:
    """The inventory of the directory `root`; with no formats where it holds no kernel cache.

    A symbolic link inside the tree counts as what it names. Directories that a compiler is still writing are
    left out; every other file is listed, whether it belongs to an entry or not.

    Raises:
        UsageError: `root` is not a directory.
        UnsafeTreeError: the tree holds a link that leaves it or dangles, a device, or a name that is no text.
        TreeTooLargeError: it exceeds `limits`.
        TreeReadError: something in it cannot be read.
    """
    return scan_tree(list_tree(root, limits))


def scan_tree(tree: Tree) -> Inventory:
    """The inventory of a tree that is listed already. Raises `TreeReadError` unless the tree is lenient."""
    found = [(known, root) for known in FORMATS for root in known.roots(tree)]
    formats_at: dict[str, list[Format]] = {}
    for known, root in found:
        formats_at.setdefault(root, []).append(known)
    nested: dict[tuple[str, str], list[tuple[Format, str]]] = {}
    outermost: list[tuple[Format, str]] = []
    for known, root in found:
        owner = _owner(formats_at, root)
        if owner is None:
            outermost.append((known, root))
        else:
            nested.setdefault((owner[0].name, owner[1]), []).append((known, root))
    taken: set[str] = set()
    inventories = [
        _inventory(tree, known, root, nested.get((known.name, root), ()), taken) for known, root in outermost
    ]
    return Inventory(
        formats=tuple(sorted((i for i in inventories if i.entries), key=lambda i: (i.root, i.format))),
        files=tuple(tree.files),
        bytes=sum(file.size for file in tree.files.values()),
    )


def _owner(formats_at: dict[str, list[Format]], root: str) -> tuple[Format, str] | None:
    """The outermost cache that the one at `root` is a part of."""
    owners = (
        (known, above)
        for above in ancestors(root)
        for known in formats_at.get(above, ())
        if known.owns(above, root)
    )
    return next(reversed(list(owners)), None)


def _inventory(
    tree: Tree, known: Format, root: str, nested: Iterable[tuple[Format, str]], taken: set[str]
) -> FormatInventory:
    findings = [known.read(tree, root), *(inner.read(tree, below) for inner, below in nested)]
    entries = [entry for found in findings for entry in found.entries if _claim(entry, taken)]
    return FormatInventory(
        format=known.name,
        root=root,
        entries=tuple(sorted(entries, key=lambda entry: entry.path)),
        relocatable=tuple(sorted((r for f in findings for r in f.relocatable), key=lambda r: r.file)),
        unrelocatable=_summary(path for found in findings for path in found.unrelocatable),
    )


def _claim(entry: Entry, taken: set[str]) -> bool:
    """Whether `entry` is the first to have its files: outer formats come first.

    An unpacked vLLM artifact is one entry, though it is an Inductor cache in small. Beyond that, frameworks
    lay out nothing twice, but whoever made this tree may have.
    """
    if not taken.isdisjoint(entry.files):
        return False
    taken.update(entry.files)
    return True


def _summary(paths: Iterable[UnrelocatablePath]) -> tuple[UnrelocatablePath, ...]:
    """One record for each path and reason, the first file's, saying how many more there are."""
    ordered = sorted(paths, key=lambda p: (p.path, p.reason, p.file))
    counts = Counter((p.path, p.reason) for p in ordered)
    first: dict[tuple[str, str], UnrelocatablePath] = {}
    for path in ordered:
        first.setdefault((path.path, path.reason), path)
    return tuple(
        msgspec.structs.replace(p, reason=p.reason + (f" (and in {more} more)" if more else ""))
        for key, p in first.items()
        for more in (counts[key] - 1,)
    )
