"""The operator in the test's own loop, against a real API server and a real registry.

Nodes are Node objects that nothing runs behind, and their reports are written by the test: what agents say is
input here.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from gkm.base.backoff import Backoff
from gkm.images.open import open_repository
from gkm.images.options import ClientOptions
from gkm.images.reference import parse_reference
from gkm.kube.client import Client
from gkm.kube.connection import Connection, load_config
from gkm.kube.errors import NotFoundError
from gkm.kube.events import EventRecorder
from gkm.kube.fence import Fence
from gkm.kube.manager import Manager
from gkm.operator.controller import add_operator
from gkm.operator.objects import (
    CLAIMS,
    CLUSTER_GKM_CACHE_NODES,
    CLUSTER_GKM_CACHES,
    GKM_CACHE_NODES,
    GKM_CACHES,
    GRANTS,
    NODES,
    VOLUMES,
    Cache,
    Claim,
    Volume,
    uid_of,
)
from gkm.operator.settings import Settings
from gkm.trust.gate import Default, DefaultGate, Gate
from support.devcluster import Cluster
from support.images import small_image, store
from support.waiting import until

IMPATIENT = Settings(
    backoff=Backoff(first=0.05, longest=0.5), count_seconds=0.0, answer_seconds=0.2, retry_seconds=0.05
)
"""Settings whose patience fits a test."""

AGENT = "gkm-operator-test"
"""The operator's user agent in the audit log."""

TARGETS = '[{"backend":"cuda","arch":"sm_90","warpSize":32}]'
LABELS = {
    "gkm.io/targets": TARGETS,
    "gkm.io/formats": "triton",
    "cache.triton.image/cache-size-bytes": "4096",
}


async def push(image: str, scratch: Path, content: bytes, credentials: Any = None) -> str:
    """Write a small cache image that holds `content` to the registry; its digest."""
    reference = parse_reference(image)
    made = small_image(content, labels=LABELS)
    async with open_repository(reference, ClientOptions(credentials=credentials)) as repository:
        found = await store(repository, made, scratch, reference.tag_to_write)
    return found.digest


_NODE_COUNTS = ("nodeCnt", "nodeInUseCnt", "nodeNotInUseCnt", "nodeErrorCnt")
_POD_COUNTS = ("podRunningCnt", "podDeletingCnt", "podOutdatedCnt")
_NO_COUNTS = dict.fromkeys((*_NODE_COUNTS, *_POD_COUNTS), 0)


@dataclass
class Bench:
    """One cluster as the administrator sees it, and one namespace for a test."""

    cluster: Cluster
    client: Client
    namespace: str
    made: list[tuple[Any, str, str]] = field(default_factory=list)

    async def make(self, name: str, image: str, *, cluster: bool = False, **spec: Any) -> Cache:
        """Create a GKMCache in the namespace, or a ClusterGKMCache."""
        resource = CLUSTER_GKM_CACHES if cluster else GKM_CACHES
        metadata = {"name": name} if cluster else {"name": name, "namespace": self.namespace}
        self.made.append((resource, name, "" if cluster else self.namespace))
        return await self.client.create(resource, {"metadata": metadata, "spec": {"image": image, **spec}})

    async def edit(self, cache: Cache, **spec: Any) -> Cache:
        """Change fields of a cache's spec."""
        meta = cache.metadata
        resource = GKM_CACHES if meta.namespace else CLUSTER_GKM_CACHES
        return await self.client.patch(resource, meta.name or "", {"spec": spec}, meta.namespace or "")

    async def delete(self, cache: Cache) -> None:
        """Ask for a cache's deletion."""
        meta = cache.metadata
        resource = GKM_CACHES if meta.namespace else CLUSTER_GKM_CACHES
        await self.client.delete(resource, meta.name or "", meta.namespace or "")

    async def again(self, cache: Cache) -> Cache:
        """The cache as it is now."""
        meta = cache.metadata
        resource = GKM_CACHES if meta.namespace else CLUSTER_GKM_CACHES
        return await self.client.get(resource, meta.name or "", meta.namespace or "")

    async def grant(self, cache: Cache) -> Any:
        """The cache's grant; None without one."""
        return await self.find(GRANTS, uid_of(cache))

    async def claim(self, name: str, namespace: str = "") -> Claim | None:
        """A PVC; None without one."""
        found: Claim | None = await self.find(CLAIMS, name, namespace or self.namespace)
        return found

    async def volumes(self, cache: Cache) -> list[Volume]:
        """The PersistentVolumes of a cache."""
        return await self.client.list_all(VOLUMES, labels=f"gkm.io/cache-uid={uid_of(cache)}")

    async def find(self, resource: Any, name: str, namespace: str = "") -> Any:
        """One object; None without one."""
        try:
            return await self.client.get(resource, name, namespace)
        except NotFoundError:
            return None

    async def until(self, cache: Cache, holds: Callable[[Cache], object], seconds: float = 20.0) -> Cache:
        """The cache, once `holds` is true of it."""
        now = cache
        try:
            async with asyncio.timeout(seconds):
                while not holds(now := await self.again(cache)):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"did not come true of {now.status}") from None
        return now

    async def eventually(self, look: Callable[[], Any], holds: Callable[[Any], object] = bool) -> Any:
        """What the coroutine function `look` gives, once `holds` is true of it."""
        found = None
        try:
            async with asyncio.timeout(20):
                while not holds(found := await look()):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"did not come true of {found}") from None
        return found

    async def node(self, name: str, labels: dict[str, str] | None = None) -> None:
        """A Node that is Ready."""
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels or {}}}
        send = self.client.connection.send
        await send("POST", "/api/v1/nodes", body=_json(body))
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        await send(
            "PATCH",
            f"/api/v1/nodes/{name}/status",
            body=_json({"status": {"conditions": [ready]}}),
            content_type="application/strategic-merge-patch+json",
        )
        self.made.append((NODES, name, ""))

    async def not_ready(self, name: str) -> None:
        """Have a Node be not Ready from now on."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"type": "Ready", "status": "Unknown", "lastTransitionTime": now}
        await self.client.connection.send(
            "PATCH",
            f"/api/v1/nodes/{name}/status",
            body=_json({"status": {"conditions": [condition]}}),
            content_type="application/strategic-merge-patch+json",
        )

    async def report(self, cache: Cache, node: str, digests: dict[str, dict[str, Any]]) -> None:
        """Have a node report on a cache: by digest, `state` and `pods` as the API has them."""
        namespace = cache.metadata.namespace or ""
        kind = "GKMCacheNode" if namespace else "ClusterGKMCacheNode"
        scope = f"/namespaces/{namespace}" if namespace else ""
        path = f"/apis/gkm.io/v1alpha1{scope}/{kind.lower()}s"
        body: dict[str, Any] = {"apiVersion": "gkm.io/v1alpha1", "kind": kind, "metadata": {"name": node}}
        send = self.client.connection.send
        there = await self.find(GKM_CACHE_NODES if namespace else CLUSTER_GKM_CACHE_NODES, node, namespace)
        if there is None:
            await send("POST", path, body=_json(body))
        known = (there.status.caches or {}).get(cache.metadata.name, {}) if there and there.status else {}
        now = "2026-01-01T00:00:00Z"
        # One write, as an agent does it: half a report would be another report.
        told: dict[str, Any] = {
            **dict.fromkeys(known),
            **{d: {"pods": None, "lastError": None, "lastUpdated": now, **f} for d, f in digests.items()},
        }
        status = {"nodeName": node, "counts": _NO_COUNTS, "caches": {cache.metadata.name: told}}
        await send(
            "PATCH",
            f"{path}/{node}/status",
            body=_json({"status": status}),
            content_type="application/merge-patch+json",
        )

    async def sweep(self) -> None:
        """Delete what the test made, finalizers or not; the operator need not run."""
        for resource, name, namespace in self.made:
            with contextlib.suppress(NotFoundError):
                await self.client.delete(resource, name, namespace)


def pods(*names: str, cold: bool = False) -> list[dict[str, Any]]:
    """`pods` of a report."""
    return [{"uid": name, "name": name, "namespace": "x", "cold": cold} for name in names]


def condition(cache: Cache, kind: str) -> tuple[str, str]:
    """Status and reason of a condition; empty where there is none."""
    for found in (cache.status.conditions if cache.status else None) or ():
        if found.type == kind:
            return found.status.value, found.reason
    return "", ""


def delivered(cache: Cache) -> bool:
    """Whether the cache is resolved and its objects exist."""
    return condition(cache, "Delivered")[0] == "True" and condition(cache, "Resolved")[0] == "True"


def phase(cache: Cache) -> str:
    """The cache's phase."""
    return str(cache.status.phase) if cache.status else ""


@contextlib.asynccontextmanager
async def operating(
    cluster: Cluster,
    settings: Settings = IMPATIENT,
    *,
    gate: Gate | None = None,
    fence: Fence | None = None,
    registry: CollectorRegistry | None = None,
) -> AsyncIterator[Manager]:
    """The operator, synced, for the block; what it measures is in `registry`."""
    connection = Connection(load_config(cluster.kubeconfig), user_agent=AGENT, fence=fence)
    async with Client(connection, field_manager="gkm-operator") as client:
        recorder = EventRecorder(client, controller="gkm.io/operator", instance="test")
        manager = Manager(client, recorder=recorder, drain=2)
        gate, registry = gate or DefaultGate(Default.WARN), registry or CollectorRegistry()
        add_operator(manager, gate, recorder, settings, registry=registry)
        task = asyncio.create_task(manager.run())
        try:
            await until(lambda: task.done() or not manager.not_ready(), "the operator is ready")
            yield manager
        finally:
            manager.stop()
            await task


def _json(body: Any) -> bytes:
    return msgspec.json.encode(body)
