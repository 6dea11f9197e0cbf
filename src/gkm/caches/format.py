"""What a format is to the rest of the room: how it is recognised, read, rewritten and pointed to.

A format is a module of `gkm.caches.formats` with one object that fits `Format`. Formats only parse: they see
names and bounded bytes of a `Tree`, and never run, import or unpickle what they find.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from gkm.caches.model import Entry, RelocatableFile, Target, Toolchain, UnrelocatablePath, distinct_targets
from gkm.caches.tree import Tree


@dataclass(frozen=True, slots=True)
class Findings:
    """What a format read below one root. `unrelocatable` may name the same path many times."""

    entries: tuple[Entry, ...] = ()
    relocatable: tuple[RelocatableFile, ...] = ()
    unrelocatable: tuple[UnrelocatablePath, ...] = ()


class Format(Protocol):
    """One kind of kernel cache."""

    @property
    def name(self) -> str:
        """The word for it in labels, paths and reports."""

    @property
    def variable(self) -> str:
        """The environment variable that tells the framework where its cache stands."""

    def roots(self, tree: Tree) -> Iterable[str]:
        """The directories of `tree` that are caches of this format; ``.`` for the tree itself."""

    def owns(self, root: str, nested: str) -> bool:
        """Whether a cache of any format at `nested` is a part of the one at `root`, not its neighbour."""

    def read(self, tree: Tree, root: str) -> Findings:
        """The entries and absolute paths that this format, and no nested one, has below `root`.

        Raises:
            TreeReadError: a file of a tree that is not lenient cannot be read.
        """

    def rewrite(
        self, content: bytes, file: str, mount_root: str, exists: Callable[[str], bool]
    ) -> bytes | None:
        """`content` of the relocatable `file` for a tree that stands at `mount_root`.

        Only paths that name something for which `exists` holds are changed; None when none changes, or when
        the content is not what this format writes.
        """

    def is_relocatable(self, file: str) -> bool:
        """Whether `file`, by its name, is one that `rewrite` understands."""

    def options(self, tree: Tree, entry: Entry) -> dict[str, str]:
        """Compile options of `entry` that are worth comparing, as text; empty where the cache tells none."""


def make_entry(
    tree: Tree,
    format_name: str,
    path: str,
    name: str,
    files: Iterable[str],
    payload: Iterable[str],
    *,
    targets: Iterable[Target] = (),
    toolchain: Toolchain | None = None,
    helper: bool = False,
) -> Entry:
    """An `Entry` with everything sorted and its bytes summed."""
    ordered = tuple(sorted(files))
    return Entry(
        format=format_name,
        path=path,
        name=name,
        files=ordered,
        payload=tuple(sorted(payload)),
        bytes=sum(tree.files[file].size for file in ordered),
        targets=distinct_targets(targets),
        toolchain=toolchain or Toolchain(),
        helper=helper,
    )
