"""The frameworks' own environment variables, which make them use a mounted cache."""

from gkm.caches.known import BY_NAME, FORMATS
from gkm.caches.model import FormatInventory, Inventory
from gkm.caches.tree import join


def variables(inventory: Inventory | None, view: str) -> dict[str, str]:
    """What to set so that a workload uses the cache that it sees at the absolute path `view`.

    With an inventory: one variable for each format in it, naming the directory that the format's cache stands
    in. Where a format has several roots, the one with the most entries, and the first by name among equals: a
    framework reads one. Without an inventory (a cold start): a directory of its own below `view` for every
    known format, so that what is compiled stays apart and can be captured.
    """
    if inventory is None:
        return {known.variable: join_view(view, known.name) for known in FORMATS}
    best: dict[str, FormatInventory] = {}
    for found in inventory.formats:
        current = best.get(found.format)
        if found.format in BY_NAME and (current is None or len(found.entries) > len(current.entries)):
            best[found.format] = found
    return {BY_NAME[name].variable: join_view(view, found.root) for name, found in sorted(best.items())}


def join_view(view: str, path: str) -> str:
    """`path` of the tree as the workload names it."""
    return view if path == "." else join(view.rstrip("/"), path)
