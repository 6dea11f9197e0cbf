"""What the room's parts say to each other and to the rooms above: targets, entries, inventories.

All are plain frozen structs, so they travel as JSON in images, reports and `--output json` as they are.
Paths are relative POSIX paths below the scanned directory, without a leading ``./``.
"""

from collections.abc import Iterable

import msgspec


class Target(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What an entry was compiled for. Two entries for the same GPU have equal targets."""

    backend: str
    """``cuda``, ``hip`` or ``cpu``; MCV's ``rocm`` is read as ``hip``."""
    arch: str
    """``sm_90`` (with a suffix where the code says so, ``sm_90a``), ``gfx942``, or ``x86_64`` for cpu."""
    warp_size: int
    """Threads of a warp or wavefront; 0 for cpu."""
    product: str | None = None
    """The GPU product name, only where the format's own key contains it and the cache tells it."""


def distinct_targets(targets: Iterable[Target]) -> tuple[Target, ...]:
    """Each of `targets` once, in one order whatever theirs was: images of one cache are to be alike."""
    return tuple(sorted(set(targets), key=_order))


def _order(target: Target) -> tuple[str, str, int, bool, str]:
    product = target.product
    return target.backend, target.arch, target.warp_size, product is not None, product or ""


class Toolchain(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Who compiled an entry, as far as the cache's bytes tell; None where they do not."""

    triton: str | None = None
    torch: str | None = None
    vllm: str | None = None
    cuda: str | None = None
    rocm: str | None = None
    ptxas: str | None = None
    python: str | None = None
    """The CPython ABI tag of host code (``cpython-312-x86_64-linux-gnu``)."""
    keys: tuple[tuple[str, str], ...] = ()
    """Opaque keys worth comparing, sorted: ``("torch_key", "9f…")``, ``("compiler_hash", "4fc2…")``."""


class Entry(msgspec.Struct, frozen=True, rename="camel"):
    """One compiled unit inside a cache."""

    format: str
    """The format that made it: ``triton`` also for Triton entries inside a vLLM cache."""
    path: str
    """Its directory or file; unique within the inventory, and its identity for hits, misses and diff."""
    name: str
    """What people call it: the kernel's function name, the subgraph, the key."""
    files: tuple[str, ...]
    """Every file that belongs to it."""
    payload: tuple[str, ...]
    """The files whose opening shows that the workload used the entry (a subset of `files`)."""
    bytes: int
    targets: tuple[Target, ...] = ()
    toolchain: Toolchain = Toolchain()
    helper: bool = False
    """True for launchers and driver utilities: carried and relocated, but counted apart from entries."""


class UnrelocatablePath(msgspec.Struct, frozen=True, rename="camel"):
    """An absolute path inside a cache that GKM cannot rewrite, and why."""

    file: str
    path: str
    """The absolute path found (the first of its kind in the file), or its common prefix."""
    reason: str
    """For people: ``inside a checksummed pickle`` …"""


class RelocatableFile(msgspec.Struct, frozen=True, rename="camel"):
    """A file with absolute paths that its format knows how to rewrite."""

    file: str
    format: str
    root: str
    """The absolute directory that the scanned tree stood at when the paths were written; where only the tail of
    an old path fits today's layout, the directory that this tail stood in."""


class FormatInventory(msgspec.Struct, frozen=True, rename="camel"):
    """The entries that one outermost format owns in a scanned directory, nested formats' entries included."""

    format: str
    """The outermost format: ``vllm`` for a vLLM cache with Triton entries inside."""
    root: str
    """Where it stands below the scanned directory; ``.`` for the directory itself."""
    entries: tuple[Entry, ...]
    """Sorted by path, helpers included."""
    relocatable: tuple[RelocatableFile, ...] = ()
    unrelocatable: tuple[UnrelocatablePath, ...] = ()


class Inventory(msgspec.Struct, frozen=True, rename="camel"):
    """All that `gkm.caches.scan.scan` found in a directory."""

    formats: tuple[FormatInventory, ...]
    """Sorted by root; empty when the directory holds no kernel cache."""
    files: tuple[str, ...]
    """Every file below the directory that packing carries, sorted; the packer resolves links."""
    bytes: int
    """The sum of the sizes of `files`."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries of all formats, without helpers."""
        return tuple(e for f in self.formats for e in f.entries if not e.helper)

    @property
    def targets(self) -> tuple[Target, ...]:
        """The distinct targets of all entries, sorted."""
        return distinct_targets(target for entry in self.entries for target in entry.targets)
