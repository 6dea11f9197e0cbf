"""A cache in the words of MCV (Model Cache Vault), upstream's packer: its summary and its manifest lists.

The forms are those that MCV 1.0.0 writes and reads: compact JSON in the summary label, snake_case keys, CUDA
archs of Triton caches as bare numbers (``75``) and of vLLM's binary artifacts with ``sm_``. Unlike MCV's, the
order is fixed, so equal caches give equal bytes.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Sequence

import msgspec

from gkm.caches.mcv_vllm import Artifacts, HashDirectory, hash_directories
from gkm.caches.model import Entry, FormatInventory, Target

_CUDA_ARCH = re.compile(r"sm_(\d+)[a-z]?")
_HEX_KEY = re.compile(r"[0-9a-f]{64}")
_MCV_KEYS = ("code_hash", "config_hash", "compiler_hash")


def summary(formats: Iterable[FormatInventory]) -> str:
    """The value of ``cache.FORMAT.image/summary``: the targets as JSON, ``null`` where there are none.

    ``cuda_version`` is given for vLLM's artifacts alone, as MCV does. Its ``ptx_version`` is left out: it
    holds the driver's major version of whoever packed, which says nothing about the cache.
    """
    found: dict[tuple[str, str, int], str | None] = {}
    entries = [e for owned in formats for e in owned.entries if not e.helper]
    prefixed = any(e.format == "vllm" and e.targets for e in entries)
    for entry in entries:
        cuda = entry.toolchain.cuda if entry.format == "vllm" else None
        for target in entry.targets:
            key = (target.backend, _arch(target, prefixed=prefixed), target.warp_size)
            found[key] = found.get(key) or (cuda if target.backend == "cuda" else None)
    if not found:
        return "null"
    targets = []
    for (backend, arch, warp_size), cuda in sorted(found.items()):
        item: dict[str, object] = {"backend": backend, "arch": arch, "warp_size": warp_size}
        targets.append(item | {"cuda_version": cuda} if cuda else item)
    return msgspec.json.encode({"targets": targets}).decode()


def manifest_entries(
    name: str, formats: Sequence[FormatInventory], files: Iterable[str]
) -> list[dict[str, object]] | None:
    """The list that MCV keeps under `name` in its manifest.json; None for a format that MCV does not know.

    Left out: MCV's ``dummy_key``, a hash of the packing machine's Triton installation that tells nothing
    about an entry, and every environment value.
    """
    if name == "triton":
        return [item for owned in formats for item in _triton(owned.entries)]
    if name == "vllm":
        return [
            _vllm(directory, owned.entries)
            for owned in formats
            for directory in hash_directories(owned.root, files)
            if directory.cache_format is not None
        ]
    return None


def _arch(target: Target, *, prefixed: bool) -> str:
    """`target.arch` as MCV spells it; MCV compares whole numbers, so a feature suffix (``90a``) must go."""
    cuda = _CUDA_ARCH.fullmatch(target.arch) if target.backend == "cuda" else None
    if cuda is None:
        return target.arch
    return f"sm_{cuda[1]}" if prefixed else cuda[1]


def _triton(entries: Iterable[Entry]) -> list[dict[str, object]]:
    return [
        {
            "hash": _triton_hash(entry.path),
            "backend": target.backend,
            "arch": _arch(target, prefixed=False),
            "warp_size": target.warp_size,
        }
        for entry in entries
        if entry.format == "triton" and not entry.helper
        for target in entry.targets
    ]


def _triton_hash(path: str) -> str:
    """The sha256 in hex that names a Triton entry's directory.

    Triton names the directory by the base32 form, without padding, of the hash that it also writes into the
    kernel's JSON (``_base32`` in triton/runtime/cache.py); its older releases used the hex form.
    """
    name = path.rpartition("/")[2]
    if _HEX_KEY.fullmatch(name):
        return name
    try:
        return base64.b32decode(name + "=" * (-len(name) % 8)).hex()
    except binascii.Error:
        return name


def _vllm(directory: HashDirectory, entries: Sequence[Entry]) -> dict[str, object]:
    inside = [e for e in entries if e.path.startswith(directory.path + "/")]
    described: dict[str, object] = {"vllmHash": directory.name, "cacheFormat": directory.cache_format}
    if directory.cache_format == "triton":
        return described | {"triton": _triton(inside)}
    return described | {"binary": [_binary(directory, one, inside) for one in directory.artifacts]}


def _binary(directory: HashDirectory, artifacts: Artifacts, entries: Iterable[Entry]) -> dict[str, object]:
    place = f"{directory.path}/{artifacts.rank}/" + (f"{artifacts.prefix}/" if artifacts.prefix else "")
    inside = [e for e in entries if e.path.startswith(place)]
    keys = {name: value for e in inside for name, value in e.toolchain.keys if name in _MCV_KEYS}
    backends = sorted({target.backend for e in inside for target in e.targets})
    described: dict[str, object] = {
        "rank": artifacts.rank,
        "prefix": artifacts.prefix,
        "artifact_count": len(artifacts.names),
        "artifact_names": list(artifacts.names),
        "cache_save_format": artifacts.save_format,
    }
    described |= dict(sorted(keys.items()))
    # MCV compares this word with what its GPU probe says, which is never vLLM's own word ``rocm``.
    return described | {"target_device": backends[0]} if backends else described
