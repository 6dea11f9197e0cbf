"""Where the files of a cache stand in a cache image, and back.

A file keeps its whole path below the scanned directory, under its format's top directory, as MCV lays it out
(``io.triton.cache/<tree>``, upstream's image specification). So the way back needs the image path alone, and
``unpack`` gives back what was packed.
"""

import re
from collections.abc import Mapping

import msgspec

from gkm.caches import mcv
from gkm.caches.model import FormatInventory, Inventory
from gkm.caches.roots import check_roots, owners

_TREE = re.compile(r"io\.[a-z0-9_-]+\.cache/(.+)", re.DOTALL)
_RECORD_VERSION = 1


class Record(msgspec.Struct, frozen=True, rename="camel"):
    """What GKM adds to MCV's manifest.json under the key ``gkm``; MCV's reader ignores unknown keys.

    A claim of whoever packed the image, for people and tools that have not fetched the tree: staging scans
    the tree itself.
    """

    version: int
    formats: tuple[FormatInventory, ...]


def image_path(inventory: Inventory) -> dict[str, str]:
    """The path inside the image of every file in `inventory`: ``HASH/x`` → ``io.triton.cache/HASH/x``.

    A file belongs to the outermost format whose root contains it, a stray one to the first format.

    Raises:
        NoCacheError, CollidingRootsError: as `gkm.caches.roots.check_roots`.
    """
    return {path: f"io.{owner.format}.cache/{path}" for path, owner in owners(inventory).items()}


def tree_path(image_path: str) -> str | None:
    """The path below the cache's directory of an entry in an image layer, or None if it is not of the tree.

    None for manifests, for the top directories themselves and for files of an ordinary image. A leading
    ``./``, which many tar writers put there and MCV's reader trips over, is no part of a path. Otherwise
    nothing is normalised: ``io.triton.cache/../x`` gives ``../x``, for the unpacker to refuse by name.
    """
    while image_path.startswith("./"):
        image_path = image_path[2:]
    found = _TREE.fullmatch(image_path)
    return found[1] if found else None


def manifests(inventory: Inventory) -> dict[str, bytes]:
    """The ``io.FORMAT.manifest/manifest.json`` files of an image of `inventory`, by image path.

    Each holds MCV's list under the format's name, for the formats that MCV knows, and `Record` under ``gkm``.
    vLLM's environment, which MCV copies here, stays out: it may hold secrets (``VLLM_API_KEY``) and paths of
    whoever packed. Equal inventories give equal bytes.

    Raises:
        NoCacheError, CollidingRootsError: as `gkm.caches.roots.check_roots`.
    """
    check_roots(inventory)
    names = sorted({owned.format for owned in inventory.formats})
    return {f"io.{name}.manifest/manifest.json": _manifest(inventory, name) for name in names}


def _manifest(inventory: Inventory, name: str) -> bytes:
    owned = tuple(f for f in inventory.formats if f.format == name)
    content: dict[str, Mapping[str, object] | list[dict[str, object]] | Record] = {}
    described = mcv.manifest_entries(name, owned, inventory.files)
    if described is not None:
        content[name] = described
    content["gkm"] = Record(version=_RECORD_VERSION, formats=owned)
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
