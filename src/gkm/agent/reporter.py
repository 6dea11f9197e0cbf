"""The reporting controller: makes this node's reports say what `gkm.agent.report` computes. Keys are reports.

A report is written when it says something else than before, and deleted when there is nothing to say; at once, and
then at most once a second, for while a node's pods all start or end it changes with each call of kubelet's. Its owner
is the Node, so it goes with it.
"""

import contextlib
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from gkm.agent.report import Facts, desired
from gkm.agent.resources import CLUSTER_REPORTS, REPORTS
from gkm.api.meta import ObjectMeta, OwnerReference
from gkm.api.names import MANAGER, Label
from gkm.api.node import ClusterGKMCacheNode, GKMCacheNode, NodeStatus
from gkm.kube.client import Client
from gkm.kube.errors import ConflictError, NotFoundError
from gkm.kube.merge_patch import merge_patch
from gkm.kube.objects import Key, Node
from gkm.kube.reconcile import Result
from gkm.kube.store import Store

Report = GKMCacheNode | ClusterGKMCacheNode

_SETTLE_SECONDS = 1.0
_APART_SECONDS = 1.0
"""Between two writes of one report."""


class Reporter:
    """Reconciles one report: that of a namespace, or of the ClusterGKMCaches (empty namespace).

    `reports` and `cluster_reports` mirror the node's own; `node` is this node's object, where it is known.
    """

    def __init__(
        self,
        client: Client,
        *,
        facts: Callable[[], Facts],
        reports: Store[GKMCacheNode],
        cluster_reports: Store[ClusterGKMCacheNode],
        node: Callable[[], Node | None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._facts = facts
        self._reports = reports
        self._cluster_reports = cluster_reports
        self._node = node
        self._now = now
        self._clock = clock
        self._written: dict[Key, float] = {}

    async def reconcile(self, key: Key) -> Result:
        """Make the report at `key` say what is so."""
        soon = self._written.get(key, -math.inf) + _APART_SECONDS - self._clock()
        if soon > 0:
            return Result(requeue_after=soon)
        node, facts = self._node(), self._facts()
        if node is None:
            return Result()  # its arrival wakes us
        present = self._present(key)
        status = desired(facts, key.namespace, present.status if present else None, self._now())
        try:
            if status is None:
                if present is not None:
                    await self._delete(key, present)
            else:
                await self._write(key, present, status, node)
        except ConflictError:
            # The mirror is behind what we or others just wrote; it will have caught up.
            return Result(requeue_after=_SETTLE_SECONDS)
        return Result()

    def _present(self, key: Key) -> Report | None:
        return self._reports.get(key) if key.namespace else self._cluster_reports.get(key)

    async def _write(self, key: Key, present: Report | None, status: NodeStatus, node: Node) -> None:
        """Make the report if need be, and change in its status what differs; nothing where nothing does."""
        if present is None:
            owner = OwnerReference(api_version="v1", kind="Node", name=key.name, uid=node.metadata.uid)
            labels: dict[str, str] = {Label.MANAGED_BY: MANAGER}
            if hostname := (node.metadata.labels or {}).get(Label.HOSTNAME):
                labels[Label.HOSTNAME] = hostname
            present = await self._apply(key, _meta(key, labels=labels, owner_references=(owner,)))
        # As they are on the wire: the server does not keep apart what is absent and what is null.
        old, new = msgspec.to_builtins(present.status) or {}, msgspec.to_builtins(status)
        patch = merge_patch(old, new)
        if not patch:
            return
        body = {"metadata": {"resourceVersion": present.metadata.resource_version}, "status": patch}
        if key.namespace:
            await self._client.patch(REPORTS, key.name, body, key.namespace, subresource="status")
        else:
            await self._client.patch(CLUSTER_REPORTS, key.name, body, subresource="status")
        self._written[key] = self._clock()  # what failed is tried again by the controller's own clock

    async def _apply(self, key: Key, metadata: ObjectMeta) -> Report:
        if key.namespace:
            return await self._client.apply(REPORTS, GKMCacheNode(metadata=metadata))
        return await self._client.apply(CLUSTER_REPORTS, ClusterGKMCacheNode(metadata=metadata))

    async def _delete(self, key: Key, present: Report) -> None:
        uid = present.metadata.uid or ""
        self._written.pop(key, None)
        with contextlib.suppress(NotFoundError):
            if key.namespace:
                await self._client.delete(REPORTS, key.name, key.namespace, uid=uid)
            else:
                await self._client.delete(CLUSTER_REPORTS, key.name, uid=uid)


def _meta(
    key: Key,
    *,
    labels: dict[str, str] | None = None,
    owner_references: tuple[OwnerReference, ...] | None = None,
) -> ObjectMeta:
    return ObjectMeta(
        name=key.name,
        namespace=key.namespace or None,
        labels=labels,
        owner_references=owner_references,
    )
