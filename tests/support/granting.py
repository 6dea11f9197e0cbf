"""Grants, GPUs and views as tests of the agent write them."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from gkm.api.grant import CacheReference, GKMGrant, GrantSpec
from gkm.api.meta import ObjectMeta
from gkm.api.status import Target
from gkm.api.values import CacheKind, Staging, WhenUnavailable

HOST = "registry.example"
SM_80 = Target(backend="cuda", arch="sm_80", warp_size=32)
SM_90 = Target(backend="cuda", arch="sm_90", warp_size=32)


def digest(letter: str) -> str:
    """A digest told apart by one hexadecimal letter."""
    return "sha256:" + letter * 64


def grant(
    *digests: str,
    name: str = "vector-add",
    namespace: str | None = "dev",
    uid: str | None = None,
    image: str | None = None,
    targets: tuple[Target, ...] | None = (SM_80,),
    size: int | None = 1000,
    staging: Staging = Staging.EAGER,
    selector: dict[str, str] | None = None,
    when_unavailable: WhenUnavailable = WhenUnavailable.START_COLD,
    wait_seconds: int = 30,
    pull_secret: str | None = None,
    namespaces: tuple[str, ...] | None = None,
    made: int = 1_700_000_000,
    ending: bool = False,
) -> GKMGrant:
    """A grant of `digests`, newest first; a ClusterGKMCache's where `namespace` is None."""
    uid = uid or f"uid-{name}"
    cluster = namespace is None
    allowed = namespaces if cluster else (namespace,) if namespace else ()
    where = image or (f"{HOST}/kernels/{name}@{digests[0]}" if digests else None)
    return GKMGrant(
        metadata=ObjectMeta(
            name=uid,
            uid=f"grant-{uid}",
            creation_timestamp=datetime.fromtimestamp(made, UTC),
            deletion_timestamp=datetime.fromtimestamp(made, UTC) if ending else None,
        ),
        spec=GrantSpec(
            cache=CacheReference(
                kind=CacheKind.CLUSTER_GKM_CACHE if cluster else CacheKind.GKM_CACHE,
                namespace=namespace,
                name=name,
                uid=uid,
            ),
            digests=digests,
            image=where,
            targets=targets,
            bytes=size,
            namespaces=allowed,
            all_namespaces=True if cluster and namespaces is None else None,
            staging=staging,
            node_selector=selector,
            when_unavailable=when_unavailable,
            wait_seconds=wait_seconds,
            pull_secret=pull_secret,
        ),
    )


class ViewedCache(NamedTuple):
    kind: CacheKind
    namespace: str | None
    name: str


class ViewingPod(NamedTuple):
    namespace: str
    name: str
    uid: str


_CACHE = ViewedCache(CacheKind.GKM_CACHE, "dev", "vector-add")
_POD = ViewingPod("dev", "pod-1", "pod-uid-1")


@dataclass(frozen=True)
class MadeView:
    """A view as the CSI driver tells of it."""

    target: Path
    digest: str | None
    cache: ViewedCache = _CACHE
    pod: ViewingPod = _POD
    volume_id: str = "csi-1"
    mode: str = "overlay"
    upper: Path = Path("/nonexistent")
