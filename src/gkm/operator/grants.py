"""The grant: what nodes may stage and mount of a cache. Pure; the operator alone writes it.

It is also the operator's own memory: what was resolved, and for which generation, is read back from here and
never from the cache's status, which others can write.
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from gkm.api.cache import CacheSpec
from gkm.api.grant import GKMGrant, GrantSpec
from gkm.api.meta import ObjectMeta
from gkm.api.names import MANAGER, Annotation, Label
from gkm.api.values import Staging, WhenUnavailable
from gkm.kube.merge_patch import merge_patch
from gkm.operator.attempts import Failed, Judged, Outcome
from gkm.operator.objects import Cache, uid_of
from gkm.operator.resolution import Resolution
from gkm.operator.scope import reference, workload_namespaces

_WAIT_SECONDS = 30
_MOST_DIGESTS = 64
"""As many as a grant may hold."""
_QUANTITY = re.compile(r"([1-9][0-9]*)([kMGT]|[KMGT]i)?")
_EXPONENT = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


def granted(current: GKMGrant | None, generation: int | None) -> Resolution | None:
    """What `current` grants first, if it was resolved for `generation` (None: for any)."""
    if current is None or not current.spec.digests or current.spec.image is None:
        return None
    if generation is not None and _resolved_generation(current) != generation:
        return None
    spec = current.spec
    return Resolution(spec.image or "", spec.digests[0], spec.targets or (), spec.bytes)


def serving(current: GKMGrant | None, outcome: Outcome | None) -> Resolution | None:
    """What nodes are to have: the newest digest that was resolved and that the gate allows.

    `outcome` is how the last resolution ended, None where it has not. A digest that the gate refuses is not
    granted; where it is the granted one, all are withdrawn.
    """
    last = granted(current, None)
    if not isinstance(outcome, Judged):
        return last
    if outcome.judgement.allowed:
        return outcome.resolution
    return None if last is not None and last.digest == outcome.resolution.digest else last


def desired(
    cache: Cache,
    current: GKMGrant | None,
    outcome: Outcome | None,
    needed: Iterable[str],
    *,
    pull_secret: str | None,
) -> GKMGrant:
    """The grant that `cache` is to have now; `needed` are older digests that nodes still need."""
    serves = serving(current, outcome)
    generation, policy = _resolved_generation(current), current.spec.policy_generation if current else None
    if isinstance(outcome, Judged) and outcome.judgement.allowed:
        generation, policy = cache.metadata.generation, outcome.judgement.policy_generation
    digests: tuple[str, ...] = ()
    if serves is not None:
        wanted = set(needed)
        older = [d for d in (current.spec.digests if current else ()) if d in wanted and d != serves.digest]
        digests = (serves.digest, *older)[:_MOST_DIGESTS]
    else:
        generation = None
    return _grant(cache, digests, serves, generation, policy, pull_secret)


def grant_patch(current: GKMGrant, wanted: GKMGrant) -> dict[str, Any]:
    """The merge patch from `current` to `wanted`, bound to the version of `current`; empty: nothing to do."""
    changes = merge_patch(_compared(current), _compared(wanted))
    if not changes:
        return {}
    metadata = {**changes.get("metadata", {}), "resourceVersion": current.metadata.resource_version}
    return {**changes, "metadata": metadata}


def withdrawn(current: GKMGrant) -> GKMGrant:
    """The grant of a cache that is being deleted: nothing may be mounted any more, and no pod waits."""
    spec = msgspec.structs.replace(
        current.spec,
        digests=(),
        image=None,
        targets=None,
        bytes=None,
        when_unavailable=WhenUnavailable.START_COLD,
        wait_seconds=0,
    )
    return msgspec.structs.replace(current, spec=spec)


def failed(outcome: Outcome | None) -> Failed | None:
    """`outcome` as the failure it is: also a digest that the gate refuses is one."""
    if isinstance(outcome, Judged):
        judgement = outcome.judgement
        return None if judgement.allowed else Failed(judgement.reason, judgement.message)
    return outcome


def limit_bytes(quantity: int | str | None) -> int | None:
    """``spec.writeLimit`` in bytes; None where it is absent, or not what the schema lets through."""
    if quantity is None or isinstance(quantity, int):
        return quantity
    match = _QUANTITY.fullmatch(quantity)
    if match is None:
        return None
    suffix = match[2] or ""
    base = 1024 if suffix.endswith("i") else 1000
    return int(match[1]) * (base ** _EXPONENT[suffix[0]] if suffix else 1)


def _grant(
    cache: Cache,
    digests: tuple[str, ...],
    serves: Resolution | None,
    generation: int | None,
    policy: int | None,
    pull_secret: str | None,
) -> GKMGrant:
    spec, namespaces = cache.spec, workload_namespaces(cache)
    annotations = {Annotation.RESOLVED_GENERATION.value: str(generation)} if generation is not None else None
    return GKMGrant(
        metadata=ObjectMeta(
            name=uid_of(cache), labels={Label.MANAGED_BY.value: MANAGER}, annotations=annotations
        ),
        spec=GrantSpec(
            cache=reference(cache),
            digests=digests,
            image=serves.image if serves else None,
            targets=(serves.targets or None) if serves else None,
            bytes=serves.bytes if serves else None,
            namespaces=namespaces,
            all_namespaces=True if namespaces is None else None,
            staging=spec.staging or Staging.EAGER,
            node_selector=node_selector(spec),
            when_unavailable=spec.when_unavailable or WhenUnavailable.START_COLD,
            wait_seconds=_WAIT_SECONDS if spec.wait_seconds is None else spec.wait_seconds,
            write_limit_bytes=limit_bytes(spec.write_limit),
            pull_secret=pull_secret,
            policy_generation=policy,
        ),
    )


def node_selector(spec: CacheSpec) -> dict[str, str] | None:
    """The labels of the nodes that stage the cache eagerly; None: all."""
    template = spec.pod_template.spec if spec.pod_template else None
    return dict(template.node_selector) if template and template.node_selector else None


def _resolved_generation(current: GKMGrant | None) -> int | None:
    text = ((current.metadata.annotations if current else None) or {}).get(Annotation.RESOLVED_GENERATION, "")
    return int(text) if text.isascii() and text.isdigit() else None


def _compared(grant: GKMGrant) -> dict[str, Any]:
    """What the operator owns of a grant: labels and annotations of others stay as they are."""
    told = (grant.metadata.annotations or {}).get(Annotation.RESOLVED_GENERATION)
    ours = {Annotation.RESOLVED_GENERATION.value: told} if told else {}
    return {"metadata": {"annotations": ours}, "spec": msgspec.to_builtins(grant.spec)}
