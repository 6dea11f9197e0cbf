"""How much a pod may add: pure arithmetic over what the others may."""

from collections.abc import Iterable

from gkm.store.bounded import Bounds

_LEAST = 16 << 20
"""What every pod gets even where the node's budget is spent: enough for locks and a few kernels."""
_BYTES_PER_FILE = 16 << 10
"""The mean size of a file in a kernel cache is above this, so bytes run out before files do."""
_LEAST_FILES = 4096


def bounds_for(wanted: int, others: Iterable[int], budget: int) -> Bounds:
    """The bounds of a new mount that shall have `wanted` bytes, beside `others`, within `budget`."""
    size = max(min(wanted, budget - sum(others)), min(wanted, _LEAST))
    return Bounds(size, max(size // _BYTES_PER_FILE, _LEAST_FILES))
