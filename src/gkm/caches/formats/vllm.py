"""vLLM's torch.compile cache: ``torch_compile_cache/HASH/rank_R_D/…`` below the cache root.

Three layouts (docs/formats.md): *legacy*, with an Inductor and a Triton cache inside, both read by their own
formats; *artifacts*, one per subgraph, as a file or as an unpacked directory; *AOT*,
``torch_aot_compile/HASH/rank_R_D/model``. ``vllm_compile_cache.py`` maps graphs to absolute paths and is
what relocation rewrites.
"""

import ast
import json
import pprint
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gkm.caches.format import Findings, make_entry
from gkm.caches.formats.artifact import read_artifact
from gkm.caches.formats.facts import searchable, targets_in, toolchain_in
from gkm.caches.formats.paths import replace_strings, stood_at, unrelocatable
from gkm.caches.model import Entry, RelocatableFile, UnrelocatablePath
from gkm.caches.tree import Tree, join, split

INDEX = "vllm_compile_cache.py"
_FACTORS = "cache_key_factors.json"
_RANK = re.compile(r"(?:(.*)/)?torch_compile_cache/((?:torch_aot_compile/)?[^/]+)/rank_\d+_\d+(?:/.*)?")
_INDEX = re.compile(rf"(?:(.*)/)?(torch_compile_cache/[^/]+)/rank_\d+_\d+/(?:.*/)?{re.escape(INDEX)}")
_ARTIFACT = re.compile(r"artifact_.*subgraph_\d+")
_TEXT_LIMIT = 1 << 20
_HASHES = ("code_hash", "compiler_hash", "config_hash")
_PICKLE = (
    "inside a checksummed artifact",
    "vLLM writes the files it names again, into the directory it uses then",
)
_HOME = ("VLLM_CONFIG_ROOT", "VLLM_XLA_CACHE_PATH")
_KEY = "a factor of vLLM's hash: under another home directory vLLM looks for another hash, and misses"
_DEBUG = "in a copy of the traced graph for people", "nothing opens it"


class VllmFormat:
    """Recognises, reads and rewrites caches that vLLM wrote."""

    name = "vllm"
    variable = "VLLM_CACHE_ROOT"

    def roots(self, tree: Tree) -> Iterable[str]:
        """The directories that hold ``torch_compile_cache`` with a rank in it."""
        matches = (_RANK.fullmatch(directory) for directory in tree.directories)
        return sorted({match[1] or "." for match in matches if match})

    def owns(self, root: str, nested: str) -> bool:
        """All below ``torch_compile_cache`` is vLLM's; a Triton cache beside it is a neighbour."""
        return nested.startswith(join(root, "torch_compile_cache/"))

    def read(self, tree: Tree, root: str) -> Findings:
        """One entry per artifact and per AOT model; a legacy layout's entries are nested formats'."""
        entries: list[Entry] = []
        relocatable: list[RelocatableFile] = []
        paths: list[UnrelocatablePath] = []
        for directory in _rank_directories(tree, root):
            factors = _factors(tree, directory)
            for name, files in _artifacts(tree, directory):
                entry, named = _artifact(tree, join(directory, name), files, factors)
                entries.append(entry)
                paths.extend(named)
            for name in tree.files_in(directory):
                file = join(directory, name)
                if name == INDEX:
                    relocatable.extend(_relocatable(tree, file))
                elif name == _FACTORS:
                    paths.extend(_home(file, factors))
                elif name in {"computation_graph.py", "transformed_code.py"}:
                    paths.extend(unrelocatable(file, tree.head(file, _TEXT_LIMIT) or b"", *_DEBUG))
        return Findings(tuple(entries), tuple(relocatable), tuple(paths))

    def is_relocatable(self, file: str) -> bool:
        """The index of a rank is."""
        return _INDEX.fullmatch(file) is not None

    def rewrite(
        self, content: bytes, file: str, mount_root: str, exists: Callable[[str], bool]
    ) -> bytes | None:
        """The index with the paths of this cache's own files moved.

        vLLM writes it with `pprint` at an indent of 4 and reads it with `ast.literal_eval`
        (vllm/compilation/backends.py, `CompilerManager`), so these are serializer and parser.
        """
        index = _parse_index(content)
        if index is None:
            return None

        def move(text: str) -> str:
            now = _inside(file, text)
            return f"{mount_root.rstrip('/')}/{now}" if now and exists(now) else text

        moved = replace_strings(index, move)
        return None if moved == index else pprint.PrettyPrinter(indent=4).pformat(moved).encode()

    def options(self, tree: Tree, entry: Entry) -> dict[str, str]:  # noqa: ARG002
        """The hashes in the toolchain's keys already say which factor differs."""
        return {}


def _rank_directories(tree: Tree, root: str) -> Iterator[str]:
    """Directories of a rank and of its prefixes (``backbone``, ``eagle_head``) below `root`."""
    for directory in tree.directories:
        match = _RANK.fullmatch(directory)
        steps = directory.split("/")
        inside_artifact = any(_ARTIFACT.fullmatch(step) for step in steps)
        if match and (match[1] or ".") == root and not inside_artifact:
            yield directory


def _artifacts(tree: Tree, directory: str) -> Iterator[tuple[str, list[str]]]:
    """The artifacts directly in `directory`, each with its files: itself, or all that was unpacked."""
    for name in tree.files_in(directory):
        if _ARTIFACT.fullmatch(name) or (name == "model" and "/torch_aot_compile/" in f"/{directory}/"):
            yield name, [join(directory, name)]
    for name in tree.directories_in(directory):
        if _ARTIFACT.fullmatch(name):
            yield name, list(tree.below(join(directory, name)))


def _artifact(
    tree: Tree, path: str, files: list[str], factors: dict[str, Any]
) -> tuple[Entry, list[UnrelocatablePath]]:
    data = searchable(tree, files)
    artifact = read_artifact(data)
    keys = {key: str(factors[key]) for key in _HASHES if isinstance(factors.get(key), str)}
    environment = factors.get("env")
    environment = environment if isinstance(environment, dict) else {}
    if isinstance(device := environment.get("VLLM_TARGET_DEVICE"), str):
        keys["target_device"] = device
    if artifact:
        keys["torch_key"] = artifact.torch_key
    cuda = environment.get("VLLM_MAIN_CUDA_VERSION") if keys.get("target_device") == "cuda" else None
    entry = make_entry(
        tree,
        "vllm",
        path,
        split(path)[1],
        files,
        files,
        targets=targets_in(data),
        toolchain=toolchain_in(data, cuda=cuda if isinstance(cuda, str) else None, keys=keys.items()),
    )
    # An unpacked artifact is an Inductor cache in small, whose format names the paths with their reasons.
    return entry, list(unrelocatable(path, data, *_PICKLE)) if files == [path] else []


def _home(file: str, factors: dict[str, Any]) -> Iterator[UnrelocatablePath]:
    """The paths below the home directory that vLLM hashed until July 2026 (vllm pull request 47573)."""
    environment = factors.get("env")
    for name in _HOME:
        path = environment.get(name) if isinstance(environment, dict) else None
        if isinstance(path, str) and path.startswith("/"):
            yield UnrelocatablePath(file=file, path=path, reason=_KEY)


def _factors(tree: Tree, directory: str) -> dict[str, Any]:
    if _FACTORS not in tree.files_in(directory):
        return {}
    try:
        value = json.loads(tree.read(join(directory, _FACTORS), _TEXT_LIMIT) or b"")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _relocatable(tree: Tree, file: str) -> Iterator[RelocatableFile]:
    index = _parse_index(tree.read(file, _TEXT_LIMIT) or b"")
    found: list[tuple[str, str]] = []

    def look(text: str) -> str:
        now = _inside(file, text)
        if now and tree.exists(now):
            found.append((text, now))
        return text

    replace_strings(index, look)
    if found:
        path, now = found[0]
        yield RelocatableFile(file=file, format="vllm", root=stood_at(path, now))


def _inside(file: str, path: str) -> str | None:
    """What the absolute `path` in the index `file` names in the tree now; None: not of this cache."""
    match = _INDEX.fullmatch(file)
    if not match or not path.startswith("/"):
        return None
    _, found, rest = path.rpartition(f"/{match[2]}/")
    return join(match[1] or ".", f"{match[2]}/{rest}") if found and rest else None


def _parse_index(content: bytes) -> dict[Any, Any] | None:
    """The dictionary in an index; None where it is no Python literal of a dictionary."""
    try:
        value = ast.literal_eval(content.decode())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, dict) else None


VLLM = VllmFormat()
