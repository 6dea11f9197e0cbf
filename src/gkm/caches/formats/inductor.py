"""TorchInductor's cache (torch/_inductor/codecache.py): graphs, autograd graphs and generated code.

``fxgraph/…/KEY/`` and ``aotautograd/…/KEY/`` hold pickles that are only ever searched for text;
``XX/cHASH.…`` is generated code, where XX are the second and third characters of the hash. Triton entries
lie below ``triton/DEVICE/`` and are read by their own format.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from gkm.caches.format import Findings, make_entry
from gkm.caches.formats.elf import HEADER_SIZE, elf_target
from gkm.caches.formats.facts import python_abi, searchable, targets_in, toolchain_in
from gkm.caches.formats.paths import unrelocatable
from gkm.caches.model import Entry, Target, Toolchain, UnrelocatablePath
from gkm.caches.tree import Tree, ancestors, join, split

_GRAPHS = ("fxgraph", "aotautograd")
_KEY = re.compile(r"[af][a-z2-7]{51}")
_CODE = re.compile(r"c[a-z2-7]{51}")
_COMPILED = (".so", ".cubin", ".hsaco", ".spv")
_TEXT_LIMIT = 4 << 20
_PICKLE = "inside a pickle", "Inductor writes the files it names again, into the directory it uses then"
_COMMENT = "in a comment of generated code", "nothing opens it"
_CODE_TEXT = "in generated code", "the file's name is the hash of its text"


class InductorFormat:
    """Recognises and reads caches that TorchInductor wrote. It rewrites nothing: paths are in pickles."""

    name = "inductor"
    variable = "TORCHINDUCTOR_CACHE_DIR"

    def roots(self, tree: Tree) -> Iterable[str]:
        """The parents of graph directories and of directories with generated code."""
        found: set[str] = set()
        for directory in tree.directories:
            parent, name = split(directory)
            if _KEY.fullmatch(name):
                # fxgraph has a level of two-letter directories in between, aotautograd usually has none.
                near = [parent, *ancestors(parent)][:2]
                found.update(split(d)[0] for d in near if split(d)[1] in _GRAPHS)
            elif len(name) == 2 and any(_code_stem(name, file) for file in tree.files_in(directory)):
                found.add(parent)
        return sorted(found)

    def owns(self, root: str, nested: str) -> bool:
        """Triton's cache per device lies below ``triton/``."""
        return nested.startswith(join(root, "triton/"))

    def read(self, tree: Tree, root: str) -> Findings:
        """One entry per graph, autograd graph and compiled library; code that is only text is a helper."""
        entries = list(_graphs(tree, root))
        for name in tree.directories_in(root):
            if len(name) == 2:
                entries.extend(_code(tree, join(root, name), name))
        paths = [path for entry in entries for path in _paths(tree, entry)]
        return Findings(tuple(entries), (), tuple(paths))

    def is_relocatable(self, file: str) -> bool:  # noqa: ARG002  the protocol asks every format
        """No file is."""
        return False

    def rewrite(
        self,
        content: bytes,  # noqa: ARG002
        file: str,  # noqa: ARG002
        mount_root: str,  # noqa: ARG002
        exists: Callable[[str], bool],  # noqa: ARG002  the protocol asks every format
    ) -> bytes | None:
        """Nothing is rewritten."""
        return None

    def options(self, tree: Tree, entry: Entry) -> dict[str, str]:  # noqa: ARG002
        """The keys are hashes of everything: there are no options to compare."""
        return {}


def _graphs(tree: Tree, root: str) -> Iterator[Entry]:
    for kind in _GRAPHS:
        for directory in _key_directories(tree, join(root, kind)):
            files = [join(directory, name) for name in tree.files_in(directory)]
            if not files:
                continue
            data = searchable(tree, files)
            yield make_entry(
                tree,
                "inductor",
                directory,
                split(directory)[1],
                files,
                files,
                targets=targets_in(data),
                toolchain=toolchain_in(data),
            )


def _key_directories(tree: Tree, directory: str) -> Iterator[str]:
    for name in tree.directories_in(directory):
        below = join(directory, name)
        if _KEY.fullmatch(name):
            yield below
        elif len(name) == 2:
            yield from (join(below, key) for key in tree.directories_in(below) if _KEY.fullmatch(key))


def _code(tree: Tree, directory: str, prefix: str) -> Iterator[Entry]:
    modules: dict[str, list[str]] = {}
    for name in tree.files_in(directory):
        if stem := _code_stem(prefix, name):
            modules.setdefault(stem, []).append(join(directory, name))
    for stem, files in sorted(modules.items()):
        compiled = [file for file in files if file.endswith(_COMPILED)]
        payload = compiled or [file for file in files if file.endswith(".py")] or files
        yield make_entry(
            tree,
            "inductor",
            payload[0],
            stem,
            files,
            payload,
            targets=_machines(tree, compiled),
            toolchain=Toolchain(python=next(filter(None, map(python_abi, compiled)), None)),
            helper=not compiled,
        )


def _machines(tree: Tree, files: Iterable[str]) -> Iterator[Target]:
    for file in files:
        target = elf_target(tree.head(file, HEADER_SIZE) or b"")
        if target is not None:
            yield target


def _code_stem(prefix: str, file: str) -> str | None:
    stem = file.partition(".")[0]
    return stem if _CODE.fullmatch(stem) and stem[1:3] == prefix else None


def _paths(tree: Tree, entry: Entry) -> Iterator[UnrelocatablePath]:
    for file in entry.files:
        if file.endswith((".py", ".cpp")):
            data = tree.read(file, _TEXT_LIMIT) or b""
            code = b"\n".join(
                line for line in data.splitlines() if not line.lstrip().startswith((b"#", b"//"))
            )
            found = list(unrelocatable(file, code, *_CODE_TEXT))
            yield from found or unrelocatable(file, data, *_COMMENT)
        elif split(file)[1].partition(".")[0] != entry.name:
            yield from unrelocatable(file, searchable(tree, [file]), *_PICKLE)


INDUCTOR = InductorFormat()
