"""What the labels of a cache image say about the cache: MCV's labels and GKM's own, written and read.

Labels let a node judge a cache before it downloads anything. They are a claim of whoever packed the image.
GKM's own are exact; MCV's are for MCV's readers, and for images that MCV made.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from gkm.caches import mcv
from gkm.caches.mcv_vllm import AOT, TOP, hash_directories
from gkm.caches.model import FormatInventory, Inventory, Target, Toolchain, distinct_targets
from gkm.caches.roots import check_roots

FORMATS_LABEL = "gkm.io/formats"
"""The outermost formats, comma separated, sorted."""
TARGETS_LABEL = "gkm.io/targets"
"""The distinct targets of all entries: a JSON list of `gkm.caches.model.Target`."""
ENTRIES_LABEL = "gkm.io/entries"
"""How many entries, helpers not counted; decimal."""
TOOLCHAIN_LABEL = "gkm.io/toolchain"
"""Per format of an entry, per fact, the sorted distinct versions: a JSON object."""

_FORMAT = re.compile(r"[a-z0-9_-]+")
_MCV_LABEL = re.compile(r"cache\.([a-z0-9_-]+)\.image/(?:summary|entry-count|cache-size-bytes)")
_MCV_SUMMARY = re.compile(r"cache\.[a-z0-9_-]+\.image/summary")
T = TypeVar("T")

_CUDA_NUMBER = re.compile(r"\d{2,3}[a-z]?")


class _MCVTarget(msgspec.Struct):
    backend: str
    arch: str | int
    warp_size: int = 0


class _MCVSummary(msgspec.Struct):
    targets: list[msgspec.Raw] | None = None


def image_labels(inventory: Inventory) -> dict[str, str]:
    """The labels of an image of `inventory`, sorted by key.

    Per outermost format MCV's ``cache.FORMAT.image/{entry-count,cache-size-bytes,summary}``, for vLLM also
    its ``format`` and ``io.kserve.km/*``; beside them GKM's own. The title is the packer's to add. The sizes
    of all formats add up to ``inventory.bytes``: upstream's operator sums these labels.

    Raises:
        NoCacheError, CollidingRootsError: as `gkm.caches.roots.check_roots`.
    """
    check_roots(inventory)
    by_name: defaultdict[str, list[FormatInventory]] = defaultdict(list)
    for owned in inventory.formats:
        by_name[owned.format].append(owned)
    labels = {
        FORMATS_LABEL: ",".join(sorted(by_name)),
        TARGETS_LABEL: msgspec.json.encode(inventory.targets).decode(),
        ENTRIES_LABEL: str(len(inventory.entries)),
        TOOLCHAIN_LABEL: _toolchain_facts(inventory),
    }
    sizes = _sizes(inventory, by_name)
    for name, formats in by_name.items():
        prefix = f"cache.{name}.image/"
        count = sum(not entry.helper for owned in formats for entry in owned.entries)
        labels[prefix + "entry-count"] = str(count)
        labels[prefix + "cache-size-bytes"] = str(sizes[name])
        labels[prefix + "summary"] = mcv.summary(formats)
    if "vllm" in by_name:
        labels |= _vllm_labels(by_name["vllm"], inventory.files)
    return dict(sorted(labels.items()))


def targets_from_labels(labels: Mapping[str, str]) -> tuple[Target, ...]:
    """The targets that the labels of an image claim, sorted; GKM's own label first, else MCV's summaries.

    MCV's spellings are read as ours: ``75`` is ``sm_75``, ``rocm`` is ``hip``. Missing, empty, null and
    malformed values give no targets, and a malformed target is left out: labels come from strangers.
    """
    own = _decode(labels.get(TARGETS_LABEL, ""), tuple[Target, ...])
    if own:
        return _sorted(own)
    found: list[Target] = []
    for key, value in labels.items():
        if _MCV_SUMMARY.fullmatch(key) is None:
            continue
        described = _decode(value, _MCVSummary)
        for raw in (described.targets if described else None) or ():
            target = _decode(bytes(raw), _MCVTarget)
            if target is not None:
                found.append(_read_target(target))
    return _sorted(found)


def formats_from_labels(labels: Mapping[str, str]) -> tuple[str, ...]:
    """The outermost formats that the labels of an image claim, sorted; () where they name none."""
    own = labels.get(FORMATS_LABEL, "").split(",")
    named = {name for name in own if _FORMAT.fullmatch(name)}
    if not named:
        named = {found[1] for key in labels if (found := _MCV_LABEL.fullmatch(key))}
    return tuple(sorted(named))


def _sizes(inventory: Inventory, by_name: Mapping[str, Iterable[FormatInventory]]) -> dict[str, int]:
    """Bytes per format: its entries', and for the first format, which carries stray files, the rest."""
    first, *others = by_name
    sizes = {name: sum(e.bytes for owned in by_name[name] for e in owned.entries) for name in others}
    return {first: max(0, inventory.bytes - sum(sizes.values())), **sizes}


def _toolchain_facts(inventory: Inventory) -> str:
    facts: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    versions = [name for name in Toolchain.__struct_fields__ if name != "keys"]
    for owned in inventory.formats:
        for entry in owned.entries:
            for name in versions:
                value = getattr(entry.toolchain, name)
                if value is not None:
                    facts[entry.format][name].add(value)
    plain = {
        format_: {name: sorted(values) for name, values in sorted(found.items())}
        for format_, found in sorted(facts.items())
    }
    return msgspec.json.encode(plain).decode()


def _vllm_labels(formats: Iterable[FormatInventory], files: Iterable[str]) -> dict[str, str]:
    """MCV's further labels of a vLLM cache; with several caches the first one's place is named."""
    formats = tuple(formats)
    directories = [d for owned in formats for d in hash_directories(owned.root, files)]
    described = [d for d in directories if d.cache_format is not None]
    labels = {
        # MCV counts hash directories here, also those that it cannot describe.
        "cache.vllm.image/entry-count": str(len(directories)),
        "cache.vllm.image/format": ",".join(sorted({str(d.cache_format) for d in described})) or "unpacked",
    }
    if described:
        first = described[0]
        top = TOP if formats[0].root == "." else f"{formats[0].root}/{TOP}"
        labels |= {
            "io.kserve.km/framework": "vllm",
            "io.kserve.km/cache-type": "torch-compile",
            "io.kserve.km/cache-hash": ",".join(dict.fromkeys(d.name for d in described)),
            "io.kserve.km/cache-mount-subpath": f"{top}/{AOT}" if first.aot else top,
            "io.kserve.km/cache-root-env": "VLLM_CACHE_ROOT=/home/kserve/.cache/vllm",
        }
    return labels


def _read_target(target: _MCVTarget) -> Target:
    backend = "hip" if target.backend == "rocm" else target.backend
    arch = str(target.arch)
    if backend == "cuda" and _CUDA_NUMBER.fullmatch(arch):
        arch = f"sm_{arch}"
    return Target(backend=backend, arch=arch, warp_size=target.warp_size)


def _sorted(targets: Iterable[Target]) -> tuple[Target, ...]:
    return distinct_targets(t for t in targets if t.backend and t.arch)


def _decode(text: str | bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(text, type=kind)
    # Deep nesting exhausts the decoder's stack, lone surrogates its UTF-8 encoder.
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
