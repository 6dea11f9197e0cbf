"""What MCV sees in a vLLM cache: its hash directories and what each holds, told by paths alone.

Layouts (vLLM's compilation cache, read by upstream's MCV): ``torch_compile_cache/HASH/rank_R_D/PREFIX/
artifact_…`` (binary), ``torch_compile_cache/HASH/rank_R_D/triton_cache/…`` (legacy, "triton") and
``torch_compile_cache/torch_aot_compile/HASH/rank_R_D/model`` (ahead of time, which MCV lists as binary).
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from gkm.caches.roots import below

TOP = "torch_compile_cache"
AOT = "torch_aot_compile"

_RANK = re.compile(r"rank_\d+_\d+")
_ARTIFACT = re.compile(r"artifact_(compile_range|shape)_.+")


@dataclass(frozen=True, slots=True)
class Artifacts:
    """The artifacts of one rank and prefix (``backbone``, ``eagle_head``; empty for ahead of time)."""

    rank: str
    prefix: str
    names: tuple[str, ...]
    save_format: Literal["binary", "unpacked", "mega-aot"]


@dataclass(frozen=True, slots=True)
class HashDirectory:
    """One compiled model: `path` is its directory below the scanned one, `name` its last part."""

    name: str
    path: str
    aot: bool
    artifacts: tuple[Artifacts, ...]
    legacy: bool
    """Whether a ``triton_cache`` of the legacy layout lies inside."""

    @property
    def cache_format(self) -> Literal["binary", "triton"] | None:
        """MCV's word for it; None where MCV could not describe the directory."""
        if self.artifacts:
            return "binary"
        return "triton" if self.legacy else None


def hash_directories(root: str, files: Iterable[str]) -> tuple[HashDirectory, ...]:
    """The hash directories of the vLLM cache at `root` among `files`, in MCV's order.

    That is: by name, those made ahead of time last and only if one of their ranks holds a ``model``.
    """
    plain: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
    aot: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
    for file in files:
        match (below(root, file) or "").split("/"):
            case [top, kind, name, *rest] if top == TOP and kind == AOT and rest:
                aot[name].append(tuple(rest))
            case [top, name, *rest] if top == TOP and name != AOT and rest:
                plain[name].append(tuple(rest))
    base = TOP if root == "." else f"{root}/{TOP}"
    described = [
        HashDirectory(
            name=name,
            path=f"{base}/{name}",
            aot=False,
            artifacts=_artifacts(seen),
            legacy=any("triton_cache" in parts[:-1] for parts in seen),
        )
        for name, seen in sorted(plain.items())
    ]
    for name, seen in sorted(aot.items()):
        models = _models(seen)
        if models:
            described.append(HashDirectory(name, f"{base}/{AOT}/{name}", True, models, legacy=False))
    return tuple(described)


def _artifacts(files: Iterable[tuple[str, ...]]) -> tuple[Artifacts, ...]:
    """One item per rank and prefix that has its key factors and at least one artifact, as MCV demands."""
    names: defaultdict[tuple[str, str], dict[str, bool]] = defaultdict(dict)
    keyed: set[tuple[str, str]] = set()
    for parts in files:
        match parts:
            case (rank, prefix, "cache_key_factors.json") if _RANK.fullmatch(rank):
                keyed.add((rank, prefix))
            case (rank, prefix, name, *rest) if _RANK.fullmatch(rank) and _ARTIFACT.fullmatch(name):
                names[rank, prefix][name] = bool(rest)
    return tuple(
        Artifacts(rank, prefix, tuple(sorted(found)), "unpacked" if found[min(found)] else "binary")
        for (rank, prefix), found in sorted(names.items())
        if (rank, prefix) in keyed
    )


def _models(files: Iterable[tuple[str, ...]]) -> tuple[Artifacts, ...]:
    ranks = {parts[0] for parts in files if len(parts) == 2 and parts[1] == "model"}
    return tuple(
        Artifacts(rank, "", ("model",), "mega-aot") for rank in sorted(ranks) if _RANK.fullmatch(rank)
    )
