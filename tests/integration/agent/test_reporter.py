"""Reports as the API server gets them: written when they change, and not with every call of kubelet's."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gkm.agent.fitness import Hardware
from gkm.agent.report import Facts
from gkm.agent.reporter import Reporter
from gkm.agent.resources import REPORTS
from gkm.agent.state import NodeState
from gkm.agent.uses import Use, use_of
from gkm.api.definitions import DEFINITIONS
from gkm.api.node import GKMCacheNode
from gkm.api.values import CacheKind
from gkm.gpus.simulated import parse_simulated
from gkm.kube.errors import NotFoundError
from gkm.kube.objects import Key
from gkm.kube.reconcile import Result
from gkm.kube.resources import NODES
from gkm.store.store import Store
from support.agent_bench import NodeBench, node_bench
from support.devcluster import Cluster
from support.granting import MadeView, ViewedCache, ViewingPod, digest, grant
from support.parts import REPOSITORY

pytestmark = pytest.mark.root
GPUS = parse_simulated("A100")


class Mirror:
    """The report as it was when it was last looked at."""

    def __init__(self) -> None:
        self.report: GKMCacheNode | None = None

    def get(self, _: Key) -> GKMCacheNode | None:
        return self.report


@pytest.fixture
async def bench(control_plane: Cluster, namespace: str, store: Store, child: Any) -> AsyncIterator[NodeBench]:
    control_plane.kubectl("apply", "--server-side", "-f", str(REPOSITORY / "deploy" / "crds"))
    names = [f"crd/{definition.crd_name}" for definition in DEFINITIONS]
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)
    async with node_bench(control_plane, namespace, store, child) as made:
        yield made


class Reporting:
    """A reporter by a clock of its own, and what the server has of its report."""

    def __init__(self, bench: NodeBench, node: Any) -> None:
        self._bench = bench
        self._mirror = Mirror()
        self._key = Key(bench.namespace, bench.node)
        self._grant = grant(digest("a"), namespace=bench.namespace)
        self.uses: dict[Path, Use] = {}
        self.now = 1000.0
        none: Any = Mirror()
        mirror: Any = self._mirror
        self._reporter = Reporter(
            bench.client,
            facts=self._facts,
            reports=mirror,
            cluster_reports=none,
            node=lambda: node,
            clock=lambda: self.now,
        )

    def _facts(self) -> Facts:
        return Facts(
            node=self._bench.node,
            gpus=GPUS,
            grants=() if not self.uses else (self._grant,),
            uses=self.uses,
            state=NodeState(staged={digest("a"): 537}),
            wished=(),
            judge=Hardware(GPUS).judge,
        )

    def starts(self, number: int) -> None:
        """Another pod uses the cache."""
        view = MadeView(
            Path(f"/nonexistent/{number}"),
            digest("a"),
            cache=ViewedCache(CacheKind.GKM_CACHE, self._bench.namespace, "vector-add"),
            pod=ViewingPod(self._bench.namespace, f"pod-{number}", f"uid-{number}"),
        )
        self.uses[view.target] = use_of(view)

    async def reconcile(self) -> Result:
        result = await self._reporter.reconcile(self._key)
        try:
            self._mirror.report = await self._bench.client.get(REPORTS, self._key.name, self._key.namespace)
        except NotFoundError:
            self._mirror.report = None
        return result

    @property
    def pods(self) -> int:
        """How many pods stand in the report; 0 where there is none."""
        report = self._mirror.report
        if report is None or report.status is None:
            return 0
        return len((report.status.caches or {})["vector-add"][digest("a")].pods or ())

    @property
    def version(self) -> str | None:
        """Changes with every write."""
        return None if self._mirror.report is None else self._mirror.report.metadata.resource_version


async def test_a_report_that_changes_with_every_call_is_written_at_once_and_then_once_a_second(
    bench: NodeBench,
) -> None:
    reporting = Reporting(bench, await bench.client.get(NODES, bench.node))
    reporting.starts(1)
    assert await reporting.reconcile() == Result()
    assert reporting.pods == 1
    written = reporting.version
    for number in (2, 3, 4):
        reporting.starts(number)
        reporting.now += 0.25
        assert await reporting.reconcile() == Result(requeue_after=1.25 - number * 0.25)
        assert reporting.version == written
    reporting.now += 0.25
    assert await reporting.reconcile() == Result()
    assert reporting.pods == 4
    # And with nothing new, never.
    written = reporting.version
    reporting.now += 10
    assert await reporting.reconcile() == Result()
    assert reporting.version == written
    # One that would say nothing goes.
    reporting.uses.clear()
    assert await reporting.reconcile() == Result()
    assert reporting.version is None
