"""Triton's own cache: one directory per kernel, named by its key (triton/runtime/cache.py, checked with 3.9).

``KEY/__grp__NAME.json`` lists the kernel's files by absolute path; if one is missing at that path, Triton
compiles again in silence. ``KEY/NAME.json`` is the kernel's metadata with its target; ``NAME.cubin`` or
``NAME.hsaco`` its code. Directories with a host library only are launchers and driver utilities.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gkm.caches.format import Findings, make_entry
from gkm.caches.formats.elf import HEADER_SIZE, elf_target
from gkm.caches.formats.facts import normal_target, ptxas_in, python_abi
from gkm.caches.formats.paths import stood_at
from gkm.caches.model import Entry, RelocatableFile, Target, Toolchain
from gkm.caches.tree import Tree, join, split

_GROUP = re.compile(r"__grp__(.+)\.json")
_KEY = re.compile(r"[A-Z2-7]{52}|[0-9a-f]{64}")
_BINARIES = (".cubin", ".hsaco", ".spv", ".zebin", ".metallib")
_JSON_LIMIT = 1 << 20
_BINARY_LIMIT = 16 << 20
_ARCH = re.compile(r"[\w.:+-]{1,48}")
_IDENTITY = frozenset({"hash", "target", "name", "triton_version", "backend_name", "arch", "extern_libs"})


class TritonFormat:
    """Recognises, reads and rewrites caches that Triton wrote."""

    name = "triton"
    variable = "TRITON_CACHE_DIR"

    def roots(self, tree: Tree) -> Iterable[str]:
        """The parents of directories that hold a group file."""
        kernels = (d for d in tree.directories if d != "." and _groups(tree, d))
        return sorted({split(directory)[0] for directory in kernels})

    def owns(self, root: str, nested: str) -> bool:  # noqa: ARG002  the protocol asks every format
        """No other format's cache is a part of a Triton cache."""
        return False

    def read(self, tree: Tree, root: str) -> Findings:
        """One entry per directory with a group file, and the helpers beside them."""
        entries: list[Entry] = []
        relocatable: list[RelocatableFile] = []
        for name in tree.directories_in(root):
            directory = join(root, name)
            groups = _groups(tree, directory)
            if groups:
                entries.append(_kernel(tree, directory, groups))
                relocatable.extend(_relocatable(tree, directory, groups))
            elif helper := _helper(tree, directory):
                entries.append(helper)
        return Findings(tuple(entries), tuple(relocatable))

    def is_relocatable(self, file: str) -> bool:
        """Group files are."""
        return _GROUP.fullmatch(split(file)[1]) is not None

    def rewrite(
        self, content: bytes, file: str, mount_root: str, exists: Callable[[str], bool]
    ) -> bytes | None:
        """The group with each child named in the directory that the group itself will stand in.

        Triton writes groups with `json.dumps`, so that is the serializer.
        """
        group = _parse(content)
        directory, _ = split(file)
        changed = False
        for child, path in _children(group).items():
            now = join(directory, path.rpartition("/")[2])
            if exists(now) and path != (moved := f"{mount_root.rstrip('/')}/{now}"):
                group["child_paths"][child] = moved
                changed = True
        return json.dumps(group).encode() if changed else None

    def options(self, tree: Tree, entry: Entry) -> dict[str, str]:
        """The scalar fields of the kernel's metadata: warps, stages, floating-point switches and so on."""
        metadata = _metadata(tree, entry.files)
        return {
            key: json.dumps(value)
            for key, value in metadata.items()
            if key not in _IDENTITY and isinstance(value, str | int | float | bool | None)
        }


def _groups(tree: Tree, directory: str) -> list[str]:
    return [name for name in tree.files_in(directory) if _GROUP.fullmatch(name)]


def _kernel(tree: Tree, directory: str, groups: list[str]) -> Entry:
    files = [join(directory, name) for name in tree.files_in(directory)]
    match = _GROUP.fullmatch(groups[0])
    stem = match[1] if match else groups[0]
    metadata = _metadata(tree, files)
    binaries = [file for file in files if file.endswith(_BINARIES)]
    # Triton opens the group before it knows whether the kernel is a hit; the code only when it is one.
    payload = binaries or [file for file in files if file == join(directory, f"{stem}.json")] or files
    code = tree.head(binaries[0], _BINARY_LIMIT) if binaries else None
    version = metadata.get("triton_version")
    target = _target(metadata) or (elf_target(code[:HEADER_SIZE]) if code else None)
    name = metadata.get("name")
    return make_entry(
        tree,
        "triton",
        directory,
        name if isinstance(name, str) and name else stem,
        files,
        payload,
        targets=(target,) if target else (),
        toolchain=Toolchain(
            triton=version if isinstance(version, str) else None, ptxas=ptxas_in(code) if code else None
        ),
    )


def _relocatable(tree: Tree, directory: str, groups: list[str]) -> Iterator[RelocatableFile]:
    for name in groups:
        file = join(directory, name)
        for path in _children(_parse(tree.read(file, _JSON_LIMIT))).values():
            now = join(directory, path.rpartition("/")[2])
            if path.startswith("/") and now in tree.files:
                yield RelocatableFile(file=file, format="triton", root=stood_at(path, now))
                break


def _helper(tree: Tree, directory: str) -> Entry | None:
    """A launcher, a driver utility or a stored autotuning result; None for a directory of another kind."""
    names = tree.files_in(directory)
    libraries = [name for name in names if name.endswith(".so")]
    payload = libraries or [name for name in names if name.endswith(".autotune.json")]
    if not payload or not _KEY.fullmatch(split(directory)[1]):
        return None
    header = tree.head(join(directory, libraries[0]), HEADER_SIZE) if libraries else None
    target = elf_target(header) if header else None
    return make_entry(
        tree,
        "triton",
        directory,
        payload[0],
        (join(directory, name) for name in names),
        (join(directory, name) for name in payload),
        targets=(target,) if target else (),
        toolchain=Toolchain(python=python_abi(payload[0])),
        helper=True,
    )


def _metadata(tree: Tree, files: Iterable[str]) -> dict[str, Any]:
    for file in sorted(files):
        name = split(file)[1]
        if name.endswith(".json") and not _GROUP.fullmatch(name) and not name.endswith(".autotune.json"):
            metadata = _parse(tree.read(file, _JSON_LIMIT))
            if isinstance(metadata.get("target"), dict):
                return metadata
    return {}


def _target(metadata: dict[str, Any]) -> Target | None:
    match metadata.get("target"):
        case {"backend": str(backend), "arch": str() | int() as arch, "warp_size": int(warp_size)}:
            if _ARCH.fullmatch(backend) and _ARCH.fullmatch(str(arch)) and 0 <= warp_size <= 1024:
                return normal_target(backend, arch, warp_size)
    return None


def _children(group: dict[str, Any]) -> dict[str, str]:
    children = group.get("child_paths")
    if not isinstance(children, dict):
        return {}  # a remote cache's group lists bare names and needs no rewriting
    return {name: path for name, path in children.items() if isinstance(path, str)}


def _parse(data: bytes | None) -> dict[str, Any]:
    """The JSON object in `data`; empty for anything else, which Triton too treats as no entry."""
    try:
        value = json.loads(data or b"")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


TRITON = TritonFormat()
