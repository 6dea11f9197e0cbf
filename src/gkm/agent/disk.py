"""How much of the disk staging may take: never so much that kubelet starts to evict pods.

Kubelet evicts when less than 15 % of the images' filesystem or 10 % of its own, or 5 % of its inodes, are free
(Kubernetes, "Node-pressure Eviction", default hard thresholds).
"""

import os
from dataclasses import dataclass
from pathlib import Path

from gkm.agent.errors import DiskBudgetError

UNKNOWN_BYTES = 1 << 30
"""What a tree is taken for when its image does not tell its size."""
_INODES_KEPT = 0.05


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """One filesystem, as statvfs(3) has it. `total_inodes` is 0 where it has no fixed number."""

    total_bytes: int
    free_bytes: int
    total_inodes: int
    free_inodes: int

    @classmethod
    def of(cls, path: Path) -> "DiskSpace":
        """The filesystem that holds `path`. Raises `OSError`."""
        found = os.statvfs(path)
        return cls(
            found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize, found.f_files, found.f_favail
        )


@dataclass(frozen=True, slots=True)
class DiskBudget:
    """What is left alone: `kept_free` is the part of the filesystem, from 0 to 1; `most_bytes` bounds all sealed
    trees together, where it is given."""

    kept_free: float = 0.2
    most_bytes: int | None = None

    def allowance(self, space: DiskSpace, *, staged: int, under_way: int, wanted: int | None) -> int:
        """How many bytes the next tree may have.

        `staged` bytes are sealed trees, `under_way` bytes are promised to trees on their way, and `wanted` is
        the size that the image tells.

        Raises:
            DiskBudgetError: less than `wanted` (or a gibibyte, where it is unknown) may be taken. Its message holds
                nothing that changes by itself, as free space does: the same fault must read the same at each attempt.
        """
        needed = UNKNOWN_BYTES if wanted is None else wanted
        left = space.free_bytes - int(space.total_bytes * self.kept_free) - under_way
        if left < needed and not self.kept_free:
            raise DiskBudgetError(
                f"staging needs {needed} bytes, for which the node's disk has no room: free space there, or remove"
                " caches"
            )
        if left < needed:
            raise DiskBudgetError(
                f"staging needs {needed} bytes, and {self.kept_free:.0%} of the node's disk have to stay free"
                " (gkm.node.disk.free in gkm-config): free space there, or remove caches"
            )
        if self.most_bytes is not None:
            left = min(left, self.most_bytes - staged - under_way)
            if left < needed:
                raise DiskBudgetError(
                    f"staging needs {needed} bytes, and all trees of a node may have {self.most_bytes}"
                    " (gkm.node.disk.limit in gkm-config): remove caches, or raise it"
                )
        if space.total_inodes and space.free_inodes < space.total_inodes * _INODES_KEPT:
            raise DiskBudgetError(
                f"less than {_INODES_KEPT:.0%} of the inodes of the node's disk are free, too few to stage:"
                " remove files"
            )
        return left
