"""How much an archive may ask for before it is refused: entries, bytes, expansion, depth, names.

The numbers bound damage, not use: each is several times what the largest known kernel cache needs.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Compression: TypeAlias = Literal["zstd", "gzip"]
"""How a layer is compressed."""

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds that unpacking enforces over all layers of one image, and that packing keeps within."""

    layers: int = 127
    """Layers, each at least one request to a registry; Docker takes no more either."""
    frames: int = 100_000
    """Frames of one compressed stream: each costs time, and seekable layers have about one for each file."""
    entries: int = 250_000
    """Files and directories."""
    all_names: int = 64 * _MIB
    """Characters of all names together: they are held in memory until the end."""
    bytes: int = 64 << 30
    """Bytes of the uncompressed archives, headers and padding included."""
    depth: int = 64
    """Components of a path."""
    component_bytes: int = 255
    """Bytes of one component: NAME_MAX of Linux's filesystems."""
    path_bytes: int = 2048
    """Bytes of a whole path. Half of PATH_MAX, so that the path still fits below the mount of a workload."""
    zstd_ratio: int = 4000
    """Uncompressed to compressed. Zeros reach 32 000; the most repetitive known cache reaches 340."""
    gzip_ratio: int = 200
    """The same for gzip, whose 32 KiB window sees no identical files; deflate itself ends at 1032."""
    ratio_from: int = 64 * _MIB
    """Uncompressed bytes below which the ratio says nothing: this much does no harm."""

    def expands_too_far(self, compression: Compression | None, compressed: int, uncompressed: int) -> bool:
        """Whether so many `compressed` bytes may not have become so many `uncompressed` ones."""
        if compression is None or uncompressed <= self.ratio_from:
            return False
        ratio = self.zstd_ratio if compression == "zstd" else self.gzip_ratio
        return uncompressed > ratio * compressed
