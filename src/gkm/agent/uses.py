"""Which pod has what mounted, and what was counted of it. Pure data; the CSI driver's views come in as they are."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import msgspec

from gkm.agent.grants import CacheKey
from gkm.api.node import PodUse
from gkm.api.values import CacheKind, Observation


class Cache(Protocol):
    """A cache as a volume names it."""

    @property
    def kind(self) -> CacheKind: ...
    @property
    def namespace(self) -> str | None: ...
    @property
    def name(self) -> str: ...


class Pod(Protocol):
    """A pod as kubelet names it."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...


class View(Protocol):
    """One pod's private view of a cache, as the CSI driver tells of it."""

    @property
    def target(self) -> Path: ...
    @property
    def cache(self) -> Cache: ...
    @property
    def pod(self) -> Pod: ...
    @property
    def volume_id(self) -> str: ...
    @property
    def digest(self) -> str | None: ...
    @property
    def mode(self) -> str: ...
    @property
    def upper(self) -> Path: ...


@dataclass(frozen=True, slots=True)
class Counted:
    """What was seen of one view. None: not counted (yet), or not to be counted."""

    hits: int | None = None
    misses: int | None = None
    observation: Observation = Observation.NONE


@dataclass(frozen=True, slots=True)
class Use:
    """One view of this node, and its counts."""

    cache: CacheKey
    digest: str | None
    """None: the pod started cold."""
    pod: PodUse
    """With counts filled in."""


def use_of(view: View) -> Use:
    """A view that was just mounted, before anything was counted."""
    pod = PodUse(
        uid=view.pod.uid,
        namespace=view.pod.namespace,
        name=view.pod.name,
        pod_namespace=view.pod.namespace,
        pod_name=view.pod.name,
        cold=True if view.digest is None else None,
        observation=Observation.NONE,
        volume_id=view.volume_id,
    )
    return Use(CacheKey(view.cache.kind, view.cache.namespace, view.cache.name), view.digest, pod)


def with_counts(use: Use, counted: Counted) -> Use:
    """`use` with what was seen. A cold start has no misses, and what was not seen has no numbers."""
    seen = counted.observation != Observation.NONE and use.digest is not None
    pod = msgspec.structs.replace(
        use.pod,
        hits=counted.hits if seen else None,
        misses=counted.misses if seen else None,
        observation=counted.observation if seen else Observation.NONE,
    )
    return replace(use, pod=pod)


def digests_in_use(uses: Iterable[Use]) -> frozenset[str]:
    """Digests that a pod of this node has mounted."""
    return frozenset(use.digest for use in uses if use.digest is not None)


def merge(uses: Mapping[Path, Use]) -> dict[tuple[CacheKey, str | None], dict[str, PodUse]]:
    """By cache and digest, each pod once: a pod with two volumes of one cache has their counts added up."""
    found: dict[tuple[CacheKey, str | None], dict[str, PodUse]] = {}
    for _, use in sorted(uses.items()):
        pods = found.setdefault((use.cache, use.digest), {})
        before = pods.get(use.pod.uid)
        pods[use.pod.uid] = use.pod if before is None else _added(before, use.pod)
    return found


def _added(one: PodUse, other: PodUse) -> PodUse:
    """Two views of one pod as one: numbers added, and no surer than the less sure of the two."""
    sure = [
        Observation.COMPLETE,
        Observation.PARTIAL_RESTARTED,
        Observation.PARTIAL_OVERFLOW,
        Observation.NONE,
    ]
    less = max(
        (one.observation or Observation.NONE, other.observation or Observation.NONE),
        key=lambda o: sure.index(o) if o in sure else len(sure),
    )
    unseen = less == Observation.NONE
    return msgspec.structs.replace(
        one,
        observation=less,
        hits=None if unseen else (one.hits or 0) + (other.hits or 0),
        misses=None if unseen else (one.misses or 0) + (other.misses or 0),
    )
