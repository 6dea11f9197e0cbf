"""The agent's parts, put together: what is watched, which controllers run, and what is handed to the CSI driver.

::

    grants, Node ──► staging controller ──► children ──► sealed trees ─┐
    pods of this node ──► demand ──┘                                   ├──► reporting controller ──► reports
    CSI driver ──► answers, usage ─────────────────────────────────────┘
"""

import asyncio
import time
from functools import partial
from typing import Self

from prometheus_client import CollectorRegistry

from gkm.agent.answers import Answers
from gkm.agent.child import Extractor
from gkm.agent.config import AgentConfig
from gkm.agent.counter import Counter
from gkm.agent.garbage import Garbage, trees_of
from gkm.agent.grants import allows, find, staged_digest
from gkm.agent.metrics import AgentMetrics
from gkm.agent.observer import Observer
from gkm.agent.pods import NODE_PODS, NodePod, NodePods, caches_named
from gkm.agent.report import Facts, scopes
from gkm.agent.reporter import Reporter
from gkm.agent.resources import CLUSTER_REPORTS, GRANTS, REPORTS
from gkm.agent.roots import Seen, roots_awaiting, roots_named, unseen
from gkm.agent.staging import Staging, digest_key, digests_of
from gkm.agent.state import NodeState
from gkm.agent.telling import Tell, nobody
from gkm.agent.trees import Trees
from gkm.agent.usage import Usage
from gkm.api.grant import GKMGrant
from gkm.kube.manager import Manager
from gkm.kube.mapping import field_changed, itself, mapped
from gkm.kube.objects import Key, Node
from gkm.kube.resources import NODES
from gkm.kube.store import Change
from gkm.store.store import Store

_STAGING_SECONDS = 6 * 3600.0
"""Longer than any image takes; a registry that hangs is noticed within seconds, by the child."""


class Agent:
    """Build it before the manager runs; use it as a context around the manager's run.

    `answers`, `trees`, `usage` and `pods` are what the CSI driver asks for. Call `restored` once the driver has told
    `usage` of the views that outlived a restart: until then nothing is collected. `registry` takes the metrics,
    `seen` tells at which path a pod sees a volume, and `tell` hears what people should know about a cache on this
    node.
    """

    def __init__(
        self,
        manager: Manager,
        config: AgentConfig,
        store: Store,
        extractor: Extractor,
        *,
        registry: CollectorRegistry | None = None,
        seen: Seen = unseen,
        tell: Tell = nobody,
    ) -> None:
        self.config = config
        self._store = store
        self._extractor = extractor
        self._judge = config.hardware.judge
        self._seen = seen
        self._grants = manager.reflect(GRANTS)
        self._nodes = manager.reflect(NODES, fields=f"metadata.name={config.node}")
        self._pods = manager.reflect(NODE_PODS, fields=f"spec.nodeName={config.node}")
        own = f"metadata.name={config.node}"
        reports = manager.reflect(REPORTS, fields=own)
        cluster_reports = manager.reflect(CLUSTER_REPORTS, fields=own)
        self.state = NodeState(on_change=self._report_all, on_lost=self._stage_again)
        metrics = AgentMetrics(
            registry or CollectorRegistry(), self.state, lambda: list(self.usage.uses.values())
        )
        self.usage = Usage(
            store,
            Observer(),
            Counter(extractor.identity),
            changed=self.state.changed_now,
            counted=metrics.counted,
        )
        self.pods = NodePods(manager.client, self._pods)
        self.trees = Trees(store, extractor, self.state, again=self._stage_again)
        self.answers = Answers(
            self.state,
            grants=self._grants.store.objects,
            synced=self._grants.synced.is_set,
            judge=self._judge,
            demand=self._demand,
            clock=time.monotonic,
        )
        self._staging = Staging(
            config,
            store,
            extractor,
            manager.client,
            self.state,
            grants=self._grants.store.objects,
            node_labels=self._node_labels,
            judge=self._judge,
            metrics=metrics,
            roots=self._roots_awaiting,
            tell=tell,
        )
        reporter = Reporter(
            manager.client,
            facts=self._facts,
            reports=reports.store,
            cluster_reports=cluster_reports.store,
            node=self._node,
        )
        self._stage = manager.controller(
            "staging", self._staging.reconcile, workers=config.parallel, timeout=_STAGING_SECONDS
        )
        self._stage.watches(self._grants, mapped(digests_of))
        self._stage.watches(
            self._nodes, self._all_digests, predicates=(field_changed(lambda node: node.metadata.labels),)
        )
        self._report = manager.controller("reporting", reporter.reconcile)
        self._report.watches(reports, itself)
        self._report.watches(cluster_reports, itself)
        self._report.watches(self._grants, mapped(self._report_keys))
        self._report.watches(self._nodes, self._all_reports, predicates=(field_changed(lambda _: None),))
        self._pods.subscribe(self._pod_changed)
        self._grants.subscribe(self._grant_changed)
        self._restored = asyncio.Event()
        self._garbage = Garbage(
            config,
            store,
            self.state,
            grants=self._grants.store.objects,
            in_use=self.usage.digests,
            ready=self._restored,
        )
        manager.add_service("garbage", self._collect)

    async def __aenter__(self) -> Self:
        self.state.found(await asyncio.to_thread(partial(trees_of, self._store)))
        await self.usage.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.trees.aclose()
        await self._extractor.aclose()
        await self.usage.aclose()

    def restored(self) -> None:
        """The CSI driver has told of every view that outlived a restart."""
        self._restored.set()

    async def _collect(self) -> None:
        await self._grants.synced.wait()
        await self._garbage.run()

    def _node(self) -> Node | None:
        return self._nodes.store.get(Key("", self.config.node))

    def _node_labels(self) -> dict[str, str]:
        node = self._node()
        return dict(node.metadata.labels or {}) if node is not None else {}

    def _facts(self) -> Facts:
        return Facts(
            node=self.config.node,
            gpus=self.config.hardware.gpus,
            grants=self._grants.store.objects(),
            uses=self.usage.uses,
            state=self.state,
            wished=self._staging.wished(),
            judge=self._judge,
        )

    def _demand(self, grant: GKMGrant, digest: str) -> None:
        """A pod wants `digest`; asked for again it changes nothing, so that backoff holds."""
        if grant.spec.cache.uid not in self.state.demanded:
            self.state.demanded.add(grant.spec.cache.uid)
            self._stage.queue.add(digest_key(digest))

    def _stage_again(self, digest: str) -> None:
        """Whether it still belongs here is for the controller to say."""
        self._stage.queue.add(digest_key(digest))

    def _roots_awaiting(self, digest: str) -> tuple[str, ...]:
        return roots_awaiting(digest, self._grants.store.objects(), self._pods.store.objects(), self._seen)

    def _pod_changed(self, change: Change[NodePod]) -> None:
        if change.new is not None:
            for key in caches_named(change.new):
                self.answers.ask(key, change.new.metadata.namespace)
        if change.old is None and change.new is not None:
            self._relocate_ahead(change.new)

    def _relocate_ahead(self, pod: NodePod) -> None:
        """The pod was just bound to this node: kubelet asks for its volumes in a moment."""
        for key, root in roots_named(pod, self._seen):
            grant = find(self._grants.store.objects(), key)
            if grant is not None and allows(grant, pod.metadata.namespace):
                digest = staged_digest(grant, self.state.staged)
                if digest is not None:
                    self.trees.ahead(digest, root)

    def _grant_changed(self, change: Change[GKMGrant]) -> None:
        """Answers may have changed; and of pods that were here first, one may want the new cache."""
        if change.new is None:
            self.state.demanded.discard(change.object.spec.cache.uid)
        else:
            for pod in self._pods.store.objects():
                for key in caches_named(pod):
                    if key.name == change.new.spec.cache.name:
                        self.answers.ask(key, pod.metadata.namespace)
        # The reporting controller hears of grants itself; only those who wait for an answer are left to tell.
        self.state.wake()

    def _all_digests(self, _: Change[Node]) -> list[Key]:
        return [key for grant in self._grants.store.objects() for key in digests_of(grant)]

    def _report_keys(self, grant: GKMGrant) -> list[Key]:
        cache = grant.spec.cache
        return [Key(cache.namespace or "", self.config.node)]

    def _all_reports(self, _: Change[Node] | None = None) -> list[Key]:
        namespaces = scopes(self._grants.store.objects(), self.usage.uses.values())
        return [Key(namespace, self.config.node) for namespace in namespaces]

    def _report_all(self) -> None:
        for key in self._all_reports():
            self._report.queue.add(key)
