"""Which outermost format a file of a scanned directory belongs to."""

from gkm.base.errors import UsageError
from gkm.caches.model import FormatInventory, Inventory


class NoCacheError(UsageError):
    """The directory holds no kernel cache that GKM knows."""


class CollidingRootsError(UsageError):
    """Two formats claim the same directory, or one lies inside another."""


def below(root: str, path: str) -> str | None:
    """The part of `path` below `root` (``.`` holds everything), or None where `path` lies outside."""
    if root == ".":
        return path
    return path[len(root) + 1 :] if path.startswith(root + "/") else None


def check_roots(inventory: Inventory) -> None:
    """Make sure that every file has exactly one owner.

    Raises:
        NoCacheError: the inventory has no formats.
        CollidingRootsError: two formats stand in the same directory, or one inside the other.
    """
    if not inventory.formats:
        raise NoCacheError(
            "no kernel cache was found in the directory: check that it is the compiler's cache"
        )
    placed: list[FormatInventory] = []
    for one in inventory.formats:
        for other in placed:
            if one.root == other.root or below(other.root, one.root) or below(one.root, other.root):
                raise CollidingRootsError(
                    f"the {other.format} cache in {other.root!r} and the {one.format} cache in {one.root!r} "
                    "share a directory: move one of them to a directory of its own"
                )
        placed.append(one)


def owners(inventory: Inventory) -> dict[str, FormatInventory]:
    """For every file of `inventory`, the format that carries it; a stray file goes to the first format.

    Raises:
        NoCacheError, CollidingRootsError: as `check_roots`.
    """
    check_roots(inventory)
    return {path: _owner(inventory, path) for path in inventory.files}


def _owner(inventory: Inventory, path: str) -> FormatInventory:
    return next((f for f in inventory.formats if below(f.root, path) is not None), inventory.formats[0])
