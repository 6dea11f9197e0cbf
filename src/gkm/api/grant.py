"""`GKMGrant`: what nodes may stage and mount. Nodes obey grants and nothing else.

Cluster-scoped and written by the operator alone, so that owners of a namespace, who may write their caches'
annotations and status, cannot forge one. It carries no counts: a change of counts wakes no agent.
"""

from typing import Annotated

import msgspec

from gkm.api.cache import IMAGE_LENGTH
from gkm.api.constraints import (
    DIGEST,
    DIGEST_LENGTH,
    DNS_LABEL,
    DNS_SUBDOMAIN,
    Rule,
    between,
    distinct,
    in_order,
    int64,
    length,
    pattern,
    rules,
)
from gkm.api.meta import Object
from gkm.api.status import Target
from gkm.api.values import CacheKind, Staging, WhenUnavailable
from gkm.api.wire import Wire


class CacheReference(Wire, frozen=True, kw_only=True):
    """The cache that a grant is for."""

    kind: CacheKind
    """``GKMCache`` or ``ClusterGKMCache``."""
    namespace: Annotated[str | None, pattern(DNS_LABEL, 63)] = None
    """The namespace of a GKMCache; absent for a ClusterGKMCache."""
    name: Annotated[str, pattern(DNS_SUBDOMAIN, 253)]
    """The cache's name."""
    uid: Annotated[str, pattern("^[-A-Za-z0-9]+$", 128)]
    """The cache's UID; the grant has it as its name."""


class GrantSpec(Wire, frozen=True, kw_only=True):
    """What nodes may do with one cache."""

    cache: Annotated[
        CacheReference,
        rules(
            Rule(
                rule="self == oldSelf",
                message="cache cannot change; delete the grant and write one named after the other's UID",
            ),
            Rule(
                rule="(self.kind == 'GKMCache') == has(self.namespace)",
                message="namespace must be set for a GKMCache and absent for a ClusterGKMCache",
                field_path=".namespace",
            ),
        ),
    ]
    """The cache; a grant stays with the one it was made for."""
    digests: Annotated[tuple[Annotated[str, pattern(DIGEST, DIGEST_LENGTH)], ...], in_order(at_most=64)]
    """The digests that pods may mount, newest first; older ones stay while in use. Nodes stage the first.
    Empty: the cache is known and nothing of it is allowed (yet, or any more)."""
    image: Annotated[str | None, length(IMAGE_LENGTH)] = None
    """Where the first digest is pulled from, ``HOST/REPO@sha256:DIGEST``; absent when ``digests`` is
    empty."""
    targets: Annotated[tuple[Target, ...] | None, in_order(at_most=256)] = None
    """What the entries of the first digest were compiled for; a node without a match never talks to the
    registry."""
    bytes: Annotated[int | None, int64(), between(0)] = None
    """The size of the first digest's tree, for the node's disk budget; absent where the image does not
    tell."""
    namespaces: Annotated[
        tuple[Annotated[str, pattern(DNS_LABEL, 63)], ...] | None, distinct(at_most=4096)
    ] = None
    """The namespaces whose pods may mount the cache; empty: none."""
    all_namespaces: bool | None = None
    """True instead of ``namespaces``: pods of every namespace may. Said outright, so that a lost list
    opens nothing."""
    staging: Staging
    """When nodes stage the first digest."""
    node_selector: dict[str, str] | None = None
    """Labels of the nodes that stage it eagerly; absent: all."""
    when_unavailable: WhenUnavailable
    """What pods do while their node has no usable digest."""
    wait_seconds: Annotated[int, between(0, 86400)]
    """With ``StartCold``: how many seconds a node's pods wait for the cache."""
    write_limit_bytes: Annotated[int | None, int64(), between(1)] = None
    """How many bytes one pod may add to its mount; absent: the node's default."""
    pull_secret: Annotated[str | None, pattern(DNS_SUBDOMAIN, 253)] = None
    """The Secret in gkm-system with credentials for the image's registry; absent: anonymous."""
    policy_generation: Annotated[int | None, int64(), between(0)] = None
    """The generation of the trust policy that allowed the digests."""


class GKMGrant(Object, frozen=True, kw_only=True):
    """What nodes may stage and mount of one cache; named after the cache's UID."""

    kind: str = msgspec.field(default_factory=lambda: "GKMGrant")
    spec: Annotated[
        GrantSpec,
        rules(
            Rule(
                rule=(
                    "size(self.digests) == 0 ? !has(self.image)"
                    " : has(self.image) && self.image.endsWith('@' + self.digests[0])"
                ),
                message="image must end with @ and the first of digests, and be absent when there are none",
                field_path=".image",
            ),
            Rule(
                rule="has(self.namespaces) != (has(self.allNamespaces) && self.allNamespaces)",
                message="exactly one of namespaces and allNamespaces: true must be given",
                field_path=".namespaces",
            ),
            Rule(
                rule="self.cache.kind != 'GKMCache' || !has(self.cache.namespace)"
                " || has(self.namespaces) && self.namespaces == [self.cache.namespace]",
                message="a GKMCache serves the pods of its own namespace: namespaces must be that one alone",
                field_path=".namespaces",
            ),
        ),
    ]
    """What nodes may do."""


NAMED_AFTER_CACHE = Rule(
    rule="self.metadata.name == self.spec.cache.uid",
    message="metadata.name must be spec.cache.uid",
    field_path=".spec.cache.uid",
)
