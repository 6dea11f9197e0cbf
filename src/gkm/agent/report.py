"""This node's reports, computed whole from what is known. Pure.

An entry exists only where a digest is on its way, staged, failing or used: a cluster's nodes do not report what
does not concern them, incompatible ones nothing unless a pod started cold there.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path

import msgspec

from gkm.agent.fitness import Fitness
from gkm.agent.grants import CacheKey, by_cache, cache_key, is_ending, newest
from gkm.agent.state import NodeState
from gkm.agent.uses import Use, merge
from gkm.api.grant import GKMGrant
from gkm.api.node import DetectedGPUs, DigestReport, NodeStatus, PodUse
from gkm.api.status import Counts
from gkm.api.values import CacheKind, StageState, Verdict
from gkm.gpus.model import GPU

NONE_DETECTED = "None Detected"


@dataclass(frozen=True, slots=True)
class Facts:
    """What reports are computed from."""

    node: str
    gpus: tuple[GPU, ...]
    grants: Sequence[GKMGrant]
    uses: Mapping[Path, Use]
    state: NodeState
    wished: Collection[str]
    """Digests that belong on this node."""
    judge: Callable[[GKMGrant], Fitness]


def scope(key: CacheKey) -> str:
    """The namespace of the report that a cache stands in; empty for ClusterGKMCaches."""
    return (key.namespace or "") if key.kind == CacheKind.GKM_CACHE else ""


def scopes(grants: Iterable[GKMGrant], uses: Iterable[Use]) -> frozenset[str]:
    """All namespaces for which there may be something to report."""
    return frozenset([*(scope(cache_key(grant)) for grant in grants), *(scope(use.cache) for use in uses)])


def desired(facts: Facts, namespace: str, before: NodeStatus | None, now: datetime) -> NodeStatus | None:
    """The report on the caches of `namespace`; None where there is nothing to report.

    What is as it was in `before` keeps its time, so that equal states are equal reports.
    """
    pods = merge(facts.uses)
    grants = by_cache(grant for grant in facts.grants if scope(cache_key(grant)) == namespace)
    keys = {*grants, *(key for key, _ in pods)}
    caches: dict[str, dict[str, DigestReport]] = {}
    counts = [0] * 6
    for key in sorted((k for k in keys if scope(k) == namespace), key=lambda k: k.name):
        entries = _entries(facts, key, grants.get(key), pods)
        if entries:
            old = (before.caches or {}).get(key.name, {}) if before is not None else {}
            caches[key.name] = {d: _timed(entry, old.get(d), now) for d, entry in sorted(entries.items())}
            counts = [a + b for a, b in zip(counts, _count(grants.get(key), entries), strict=True)]
    if not caches:
        return None
    in_use, not_in_use, failed, running, deleting, outdated = counts
    return NodeStatus(
        node_name=facts.node,
        counts=Counts(
            node_cnt=len(caches),
            node_in_use_cnt=in_use,
            node_not_in_use_cnt=not_in_use,
            node_error_cnt=failed,
            pod_running_cnt=running,
            pod_deleting_cnt=deleting,
            pod_outdated_cnt=outdated,
        ),
        gpus=detected(facts.gpus),
        caches=caches,
    )


def detected(gpus: Iterable[GPU]) -> tuple[DetectedGPUs, ...]:
    """The node's GPUs, grouped by type and driver."""

    def kind(gpu: GPU) -> tuple[str, str]:
        return gpu.product, gpu.driver_version or ""

    groups = tuple(
        DetectedGPUs(gpu_type=product, driver_version=driver or None, ids=tuple(g.index for g in members))
        for (product, driver), members in groupby(sorted(gpus, key=lambda g: (*kind(g), g.index)), kind)
    )
    return groups or (DetectedGPUs(gpu_type=NONE_DETECTED),)


def _entries(
    facts: Facts,
    key: CacheKey,
    grant: GKMGrant | None,
    pods: Mapping[tuple[CacheKey, str | None], Mapping[str, PodUse]],
) -> dict[str, DigestReport]:
    """What there is to say about each digest of one cache."""
    first = newest(grant) if grant is not None else None
    granted = grant.spec.digests if grant is not None else ()
    digests = set(granted) | {digest for k, digest in pods if k == key and digest is not None}
    found: dict[str, DigestReport] = {}
    for digest in digests:
        users = dict(pods.get((key, digest), {}))
        if digest == first:
            users = {**pods.get((key, None), {}), **users}  # who started cold would have got this one
        fitness = facts.judge(grant) if grant is not None and digest == first else None
        state = _state(facts, digest, granted=digest in granted, fitness=fitness)
        if state is None or (state == StageState.INCOMPATIBLE and not users):
            continue
        if state == StageState.DELETING and not users:
            continue
        found[digest] = _entry(facts, digest, state, fitness, users)
    return found


def _state(facts: Facts, digest: str, *, granted: bool, fitness: Fitness | None) -> StageState | None:
    state = facts.state
    if digest in state.staged:
        return StageState.STAGED if granted else StageState.DELETING
    if digest in state.staging:
        return StageState.STAGING
    if fitness is not None and not fitness.fits:
        return StageState.INCOMPATIBLE
    if digest in facts.wished:
        return StageState.FAILED if digest in state.errors else StageState.PENDING
    return None


def _entry(
    facts: Facts, digest: str, state: StageState, fitness: Fitness | None, users: Mapping[str, PodUse]
) -> DigestReport:
    gpus = fitness.gpus if fitness is not None else ()
    size = facts.state.staged.get(digest)
    return DigestReport(
        state=state,
        bytes=size,
        volume_size=size,
        gpus=gpus or None,
        compatible_gpus=tuple(g.id for g in gpus if g.verdict == Verdict.COMPATIBLE) or None,
        incompatible_gpus=tuple(g.id for g in gpus if g.verdict == Verdict.INCOMPATIBLE) or None,
        pods=tuple(users[uid] for uid in sorted(users)) or None,
        last_error=facts.state.errors.get(digest),
        last_updated=datetime.min,  # noqa: DTZ901  set by `_timed`
    )


def _timed(entry: DigestReport, old: DigestReport | None, now: datetime) -> DigestReport:
    if old is not None:
        same = msgspec.structs.replace(entry, last_updated=old.last_updated)
        if msgspec.to_builtins(same) == msgspec.to_builtins(old):
            return same
    return msgspec.structs.replace(entry, last_updated=now)


def _count(grant: GKMGrant | None, entries: Mapping[str, DigestReport]) -> tuple[int, ...]:
    """One cache on this node: in use, not in use, in error (each 0 or 1); pods running, deleting, outdated."""
    ending = grant is None or is_ending(grant)
    first = None if grant is None else newest(grant)
    warm = {d: [p for p in entry.pods or () if not p.cold] for d, entry in entries.items()}
    running = sum(len(pods) for pods in warm.values())
    outdated = sum(len(pods) for digest, pods in warm.items() if digest != first)
    failed = any(entry.state == StageState.FAILED for entry in entries.values())
    staged = any(entry.state == StageState.STAGED for entry in entries.values())
    in_use = running > 0
    return (
        int(in_use),
        int(staged and not in_use),
        int(failed),
        running,
        running if ending else 0,
        0 if ending else outdated,
    )
