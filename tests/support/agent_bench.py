"""The agent in the test's own loop, against a real API server and a real registry; mounts are the test's."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from gkm.agent.agent import Agent
from gkm.agent.child import Extractor
from gkm.agent.config import AgentConfig
from gkm.agent.confinement import Identity
from gkm.agent.disk import DiskBudget
from gkm.agent.fitness import Hardware
from gkm.agent.resources import CLUSTER_REPORTS, GRANTS, REPORTS
from gkm.agent.telling import STAGED
from gkm.api.grant import GKMGrant
from gkm.api.node import DigestReport, NodeStatus
from gkm.csi.paths import volume_seen_at
from gkm.gpus.simulated import parse_simulated
from gkm.kube.client import Client
from gkm.kube.connection import Connection, load_config
from gkm.kube.errors import NotFoundError
from gkm.kube.manager import Manager
from gkm.kube.metrics import Metrics
from gkm.store.store import Store
from support.devcluster import Cluster


@dataclass
class NodeBench:
    """One node of the control plane: its name, its store, and an agent that can be stopped and started anew."""

    client: Client
    cluster: Cluster
    namespace: str
    store: Store
    extractor: Extractor
    gpus: str = "A100"
    node: str = field(default_factory=lambda: f"node-{uuid.uuid4().hex[:8]}")
    grants: list[str] = field(default_factory=list)
    metrics: CollectorRegistry = field(default_factory=CollectorRegistry)
    """Of the agent that runs, or ran last."""
    told: list[tuple[str, str, str]] = field(default_factory=list)
    """What people were told of caches: (cache, reason, message)."""

    @contextlib.asynccontextmanager
    async def agent(self, **config: Any) -> AsyncIterator[Agent]:
        """The agent, running for the block."""
        known = AgentConfig(
            node=self.node,
            hardware=Hardware(parse_simulated(self.gpus)),
            **{
                "jitter_seconds": 0.0,
                "unused_seconds": 0.0,
                "collect_seconds": 0.05,
                "disk": DiskBudget(kept_free=0.0),
                **config,
            },
        )
        manager = Manager(self.client, metrics=Metrics(CollectorRegistry()), drain=5.0)
        self.metrics = CollectorRegistry()
        async with Agent(
            manager,
            known,
            self.store,
            self.extractor,
            registry=self.metrics,
            seen=lambda pod, volume: volume_seen_at(pod, {volume}).root,
            tell=self._tell,
        ) as agent:
            agent.restored()
            running = asyncio.create_task(manager.run())
            try:
                yield agent
            finally:
                manager.stop()
                await running

    def _tell(self, grant: GKMGrant, reason: str, message: str, *, warning: bool) -> None:
        assert warning == (reason != STAGED)
        self.told.append((grant.spec.cache.name, reason, message))

    async def make_node(self, labels: dict[str, str] | None = None) -> None:
        """The Node object."""
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.node, "labels": labels or {}}}
        await self.client.connection.send("POST", "/api/v1/nodes", body=msgspec.json.encode(body))

    async def grant(self, grant: GKMGrant) -> None:
        """Write a grant, as the operator does."""
        await self.client.apply(GRANTS, without_server_fields(grant))
        self.grants.append(grant.metadata.name or "")

    async def revoke(self, name: str) -> None:
        """Delete a grant."""
        with contextlib.suppress(NotFoundError):
            await self.client.delete(GRANTS, name)

    async def report(self, namespace: str | None = None) -> NodeStatus | None:
        """What the node reports of the test's namespace, or of ClusterGKMCaches (empty)."""
        where = self.namespace if namespace is None else namespace
        with contextlib.suppress(NotFoundError):
            if where:
                return (await self.client.get(REPORTS, self.node, where)).status
            return (await self.client.get(CLUSTER_REPORTS, self.node)).status
        return None

    async def entry(self, cache: str, digest: str) -> DigestReport | None:
        """One digest's entry in the report of the test's namespace."""
        status = await self.report()
        return ((status.caches or {}) if status else {}).get(cache, {}).get(digest)

    async def until(self, look: Callable[[], Any], holds: Callable[[Any], object] = bool) -> Any:
        """What the coroutine function `look` gives, once `holds` is true of it."""
        found = None
        try:
            async with asyncio.timeout(30):
                while not holds(found := await look()):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"did not come true; last seen: {found}") from None
        return found

    async def sweep(self) -> None:
        """Delete what the test made."""
        for name in self.grants:
            await self.revoke(name)
        with contextlib.suppress(NotFoundError):
            await self.client.connection.send("DELETE", f"/api/v1/nodes/{self.node}")


@contextlib.asynccontextmanager
async def node_bench(
    cluster: Cluster, namespace: str, store: Store, child: Identity, **options: Any
) -> AsyncIterator[NodeBench]:
    """A node of `cluster`, and nothing of it afterwards."""
    config = load_config(cluster.kubeconfig)
    async with Client(Connection(config, user_agent="gkm-agent-test"), field_manager="gkm-agent") as client:
        bench = NodeBench(client, cluster, namespace, store, Extractor(child), **options)
        await bench.make_node()
        try:
            yield bench
        finally:
            await bench.sweep()


def without_server_fields(grant: GKMGrant) -> GKMGrant:
    """The grant as one may write it."""
    meta = msgspec.structs.replace(grant.metadata, uid=None, creation_timestamp=None, deletion_timestamp=None)
    return msgspec.structs.replace(grant, metadata=meta)


def trees(store: Store) -> set[str]:
    """The digests in the store."""
    return {path.name.replace("-", ":", 1) for path in Path(store.layout.trees).iterdir()}
