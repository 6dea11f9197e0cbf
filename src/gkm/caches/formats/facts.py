"""Facts found in bytes by pattern: targets and versions inside pickles, archives and code that we never load.

The patterns are what the compilers write verbatim: Triton's kernel metadata (JSON, kept inside Inductor's
pickles and vLLM's artifacts), Inductor's `DeviceProperties(…)` and the header of its reproducer, and ptxas's
note.
"""

import re
from collections.abc import Iterable

from gkm.caches.formats.elf import HEADER_SIZE, MAGIC, elf_target, wavefront
from gkm.caches.model import Target, Toolchain
from gkm.caches.tree import Tree

_SCAN_LIMIT = 64 << 20

_TRITON_TARGET = re.compile(
    rb'"target": ?\{"backend": ?"(\w{1,16})", ?"arch": ?"?([\w.:+-]{1,48})"?, ?"warp_size": ?(\d{1,4})\}'
)
_DEVICE = re.compile(
    rb"DeviceProperties\(type='(\w{1,16})', index=\d{1,4}, multi_processor_count=\d{1,6}, "
    rb"cc='?([\w.:+-]{1,48})'?[^)\n]{0,200}?(?:warp_size=(\d{1,4}))?\)"
)
_TRITON = re.compile(rb'"triton_version": ?"([\w.+-]{1,40})"')
_TORCH = re.compile(rb"# torch version: ([\w.+-]{1,60})")
_TORCH_CUDA = re.compile(rb"# torch cuda version: (\d[\w.]{0,20})")
_PTXAS = re.compile(rb"Cuda compilation tools, release [\d.]{1,10}, V([\d.]{1,20})")
_ABI = re.compile(r"\.(cpython-\d+[a-z]*-[\w-]+)\.so\Z")


def searchable(tree: Tree, files: Iterable[str]) -> bytes:
    """The content of an entry's `files` one after the other, for searching: at most the first 64 MiB.

    Raises:
        TreeReadError: as `Tree.head`.
    """
    pieces: list[bytes] = []
    left = _SCAN_LIMIT
    for file in files:
        pieces.append(tree.head(file, left) or b"")
        left -= len(pieces[-1])
    return b"".join(pieces)


def normal_target(backend: str, arch: str | int, warp_size: int) -> Target:
    """A target in GKM's words from what a compiler wrote: ``75`` and ``sm75`` are ``sm_75``, rocm is hip."""
    backend = {"rocm": "hip"}.get(backend.lower(), backend.lower())
    text = str(arch).lower()
    if backend == "cuda":
        text = "sm_" + text.removeprefix("sm_").removeprefix("sm")
        warp_size = warp_size or 32
    elif backend == "hip":
        text = text.partition(":")[0]  # gfx90a:sramecc+:xnack-
        warp_size = warp_size or wavefront(text)
    elif backend == "cpu":
        warp_size = 0
    return Target(backend=backend, arch=text, warp_size=warp_size)


def targets_in(data: bytes) -> set[Target]:
    """The targets that `data` names; embedded device code decides only where no text does."""
    named = {
        normal_target(m[1].decode(), m[2].decode(), int(m[3] or 0))
        for pattern in (_TRITON_TARGET, _DEVICE)
        for m in pattern.finditer(data)
    }
    return {target for target in named if target.backend != "cpu"} or _device_code(data)


def _device_code(data: bytes) -> set[Target]:
    found: set[Target] = set()
    position = data.find(MAGIC)
    while position >= 0:
        target = elf_target(data[position : position + HEADER_SIZE])
        if target is not None:
            found.add(target)
        position = data.find(MAGIC, position + len(MAGIC))
    devices = {target for target in found if target.backend != "cpu"}
    # A GPU artifact may hold host launchers too; the device is what it was compiled for.
    return devices or found


def toolchain_in(
    data: bytes, *, triton: str | None = None, cuda: str | None = None, keys: Iterable[tuple[str, str]] = ()
) -> Toolchain:
    """The compilers' versions that `data` names; facts known from elsewhere win, `keys` are sorted."""
    return Toolchain(
        triton=triton or _first(_TRITON, data),
        torch=_first(_TORCH, data),
        cuda=cuda or _first(_TORCH_CUDA, data),
        ptxas=ptxas_in(data),
        keys=tuple(sorted(keys)),
    )


def ptxas_in(data: bytes) -> str | None:
    """The version of ptxas that wrote the device code in `data`, by its note; None where there is none."""
    return _first(_PTXAS, data)


def python_abi(file: str) -> str | None:
    """The ABI tag in an extension module's name, e.g. ``cpython-312-x86_64-linux-gnu`` (PEP 3149)."""
    match = _ABI.search(file)
    return match[1] if match else None


def _first(pattern: re.Pattern[bytes], data: bytes) -> str | None:
    match = pattern.search(data)
    return match[1].decode() if match else None
