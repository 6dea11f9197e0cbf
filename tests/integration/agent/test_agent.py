"""The agent from grant to report: a real API server, a real registry, real children; views are told by the test."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from gkm.agent.confinement import Identity
from gkm.agent.disk import DiskBudget
from gkm.agent.resources import REPORTS
from gkm.api.definitions import DEFINITIONS
from gkm.api.grant import GKMGrant
from gkm.api.values import CacheKind, StageState, Staging
from gkm.store.errors import TreeDamagedError
from gkm.store.layers import find_layer
from gkm.store.store import Store
from support.agent_bench import NodeBench, node_bench, trees
from support.cached_images import publish
from support.devcluster import Cluster
from support.granting import SM_90, MadeView, ViewedCache, ViewingPod, digest, grant
from support.parts import REPOSITORY
from support.processes import running_as
from support.registry import RunningRegistry

pytestmark = pytest.mark.root
REPO = "kernels/vector-add"


@pytest.fixture(scope="session")
def with_crds(control_plane: Cluster) -> Cluster:
    control_plane.kubectl("apply", "--server-side", "-f", str(REPOSITORY / "deploy" / "crds"))
    names = [f"crd/{definition.crd_name}" for definition in DEFINITIONS]
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)
    control_plane.kubectl("create", "namespace", "gkm-system", check=False)
    return control_plane


@pytest.fixture
async def bench(
    with_crds: Cluster, namespace: str, store: Store, child: Identity
) -> AsyncIterator[NodeBench]:
    async with node_bench(with_crds, namespace, store, child) as made:
        yield made


def granted(bench: NodeBench, registry: RunningRegistry, *digests: str, **more: object) -> GKMGrant:
    """A grant of digests in the test's registry."""
    options: dict[str, object] = {"namespace": bench.namespace, "uid": f"{bench.namespace}-cache", **more}
    image = f"{registry.host}/{REPO}@{digests[0]}"
    return grant(*digests, image=image, **options)  # type: ignore[arg-type]


def children(bench: NodeBench) -> list[int]:
    """The agent's children that stage, or are ready to."""
    assert bench.extractor.identity is not None
    return running_as(bench.extractor.identity.uid, parent=os.getpid())


def view(bench: NodeBench, which: str | None, number: int = 1) -> MadeView:
    return MadeView(
        Path(f"/nonexistent/{number}"),
        which,
        cache=ViewedCache(CacheKind.GKM_CACHE, bench.namespace, "vector-add"),
        pod=ViewingPod(bench.namespace, f"pod-{number}", f"uid-{number}"),
    )


def metric(bench: NodeBench, name: str, **labels: str) -> float | None:
    return bench.metrics.get_sample_value(name, labels)


async def make_pod(bench: NodeBench, mount_path: str) -> None:
    """A pod on the node that mounts the cache inline at `mount_path`; nobody runs it."""
    volume = {
        "name": "cache",
        "csi": {
            "driver": "csi.gkm.io",
            "volumeAttributes": {
                "csi.gkm.io/GKMCache": "vector-add",
                "csi.gkm.io/namespace": bench.namespace,
            },
        },
    }
    container = {
        "name": "c",
        "image": "none",
        "volumeMounts": [{"name": "cache", "mountPath": mount_path}],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": bench.namespace},
        "spec": {"nodeName": bench.node, "containers": [container], "volumes": [volume]},
    }
    path = f"/api/v1/namespaces/{bench.namespace}/pods"
    await bench.client.connection.send("POST", path, body=msgspec.json.encode(pod))


async def is_staged(bench: NodeBench, which: str, name: str = "vector-add") -> None:
    await bench.until(
        lambda: bench.entry(name, which), lambda e: e is not None and e.state == StageState.STAGED
    )


async def test_a_granted_digest_is_staged_reported_used_and_released(
    bench: NodeBench, registry: RunningRegistry, tmp_path: Path
) -> None:
    which = await publish(registry.host, tmp_path, "A")
    async with bench.agent() as agent:
        await bench.grant(granted(bench, registry, which))
        await is_staged(bench, which)
        answer = agent.answers.lookup(CacheKind.GKM_CACHE, bench.namespace, "vector-add", bench.namespace)
        assert answer.digest == which
        entry = await bench.entry("vector-add", which)
        assert entry is not None
        assert entry.bytes == bench.store.tree(which).bytes  # type: ignore[union-attr]
        assert entry.compatible_gpus == (0,)
        # Without a mount nothing can be observed, which must not keep the use from being reported.
        await agent.usage.mounted(view(bench, which), restored=False)
        status = await bench.until(bench.report, lambda s: s is not None and s.counts.node_in_use_cnt == 1)
        assert (status.counts.pod_running_cnt, status.counts.node_not_in_use_cnt) == (1, 0)
        await agent.usage.unmounted(view(bench, which))
        await bench.until(bench.report, lambda s: s is not None and s.counts.node_not_in_use_cnt == 1)
        assert metric(bench, "gkm_staging_seconds_count") == 1
        assert (metric(bench, "gkm_sealed_trees"), metric(bench, "gkm_views", start="warm")) == (1, 0)
        owned = await bench.client.get(REPORTS, bench.node, bench.namespace)
        assert [(o.kind, o.name) for o in owned.metadata.owner_references or ()] == [("Node", bench.node)]
        agent.state.promised.clear()  # time passes
        await bench.revoke(f"{bench.namespace}-cache")
        await bench.until(bench.report, lambda s: s is None)
        await bench.until(lambda: _async(trees(bench.store)), lambda left: left == set())


async def _async(value: object) -> object:
    return value


async def test_a_node_that_a_cache_does_not_fit_asks_no_registry_and_reports_nothing(
    bench: NodeBench, registry: RunningRegistry
) -> None:
    # Nobody listens there: asking would show as a failure.
    await bench.grant(
        grant(digest("a"), namespace=bench.namespace, uid=f"{bench.namespace}-cache", targets=(SM_90,))
    )
    async with bench.agent() as agent:

        def answer() -> object:
            return agent.answers.lookup(CacheKind.GKM_CACHE, bench.namespace, "vector-add", bench.namespace)

        found = await bench.until(lambda: _async(answer()), lambda a: a.reason != "NotSynced")
        assert (found.final, found.reason) == (True, "ArchMismatch")
        await agent.usage.mounted(view(bench, None), restored=False)
        entry = await bench.until(lambda: bench.entry("vector-add", digest("a")))
        assert entry.state == StageState.INCOMPATIBLE
        assert [pod.cold for pod in entry.pods] == [True]
        await agent.usage.unmounted(view(bench, None))
        await bench.until(bench.report, lambda s: s is None)
        assert agent.state.errors == {}


async def test_on_demand_is_staged_when_a_pod_is_bound_to_the_node(
    bench: NodeBench, registry: RunningRegistry, tmp_path: Path
) -> None:
    which = await publish(registry.host, tmp_path, "B")
    await bench.grant(granted(bench, registry, which, staging=Staging.ON_DEMAND))
    async with bench.agent() as agent:
        await bench.until(lambda: _async(agent.state), lambda _: agent._grants.synced.is_set())
        assert trees(bench.store) == set()
        await bench.until(lambda: _async(children(bench)), lambda pids: len(pids) == 1)
        await make_pod(bench, "/seen/here")
        await is_staged(bench, which)
        await bench.until(lambda: _async(children(bench)), lambda pids: pids == [])
        tree = bench.store.tree(which)
        assert tree is not None
        assert find_layer(tree, "/seen/here") is not None, "the pod will wait for a child of its own"


async def test_a_new_digest_is_staged_beside_the_old_and_the_old_goes_with_its_last_pod(
    bench: NodeBench, registry: RunningRegistry, tmp_path: Path
) -> None:
    old = await publish(registry.host, tmp_path, "C", tag="old")
    new = await publish(registry.host, tmp_path, "C", "D", tag="new")
    async with bench.agent() as agent:
        await bench.grant(granted(bench, registry, old))
        await is_staged(bench, old)
        await agent.usage.mounted(view(bench, old), restored=False)
        await bench.grant(granted(bench, registry, new, old))
        await is_staged(bench, new)
        status = await bench.until(bench.report, lambda s: s is not None and s.counts.pod_outdated_cnt == 1)
        assert status.counts.node_in_use_cnt == 1
        assert trees(bench.store) == {old, new}
        answer = agent.answers.lookup(CacheKind.GKM_CACHE, bench.namespace, "vector-add", bench.namespace)
        assert answer.digest == new
        agent.state.promised.clear()  # time passes
        await agent.usage.unmounted(view(bench, old))
        await bench.until(lambda: _async(trees(bench.store)), lambda left: left == {new})
        await bench.until(lambda: bench.entry("vector-add", old), lambda e: e is None)


async def test_caches_that_share_a_digest_share_a_pull_and_a_tree(
    bench: NodeBench, registry: RunningRegistry, tmp_path: Path
) -> None:
    which = await publish(registry.host, tmp_path, "E")
    async with bench.agent() as agent:
        for name in ("one", "two"):
            await bench.grant(granted(bench, registry, which, name=name, uid=f"{bench.namespace}-{name}"))
        await is_staged(bench, which, "one")
        await is_staged(bench, which, "two")
        assert trees(bench.store) == {which}
        await bench.revoke(f"{bench.namespace}-one")
        await bench.until(lambda: bench.entry("one", which), lambda e: e is None)
        await agent._garbage.collect()
        assert trees(bench.store) == {which}


async def test_a_failure_is_reported_with_its_reason_and_ends_when_it_is_mended(
    bench: NodeBench, registry: RunningRegistry, tmp_path: Path
) -> None:
    which = await publish(registry.host, tmp_path, "F")
    async with bench.agent():
        await bench.grant(granted(bench, registry, which, pull_secret=f"pull-{bench.namespace}"))
        entry = await bench.until(
            lambda: bench.entry("vector-add", which), lambda e: e is not None and e.state == StageState.FAILED
        )
        assert entry.last_error.reason == "PullSecretUnusable"
        assert "gkm-system" in entry.last_error.message
        await bench.grant(granted(bench, registry, which))
        await is_staged(bench, which)
        mended = await bench.entry("vector-add", which)
        assert mended is not None
        assert mended.last_error is None
    *failures, (name, reason, message) = dict.fromkeys(bench.told)
    assert [told[:2] for told in failures] == [("vector-add", "PullSecretUnusable")]
    assert bench.node in failures[0][2]
    assert (name, reason, bench.node in message) == ("vector-add", "Staged", True)


async def test_a_tree_that_is_deleted_by_hand_comes_back(
    bench: NodeBench, registry: RunningRegistry, tmp_path: Path
) -> None:
    which = await publish(registry.host, tmp_path, "J")
    async with bench.agent():
        await bench.grant(granted(bench, registry, which))
        await is_staged(bench, which)
        shutil.rmtree(bench.store.layout.tree(which))
        await bench.until(lambda: _async(trees(bench.store)), lambda found: found == {which})
        await is_staged(bench, which)


async def test_a_report_that_others_wrote_over_or_deleted_is_written_again(
    bench: NodeBench, registry: RunningRegistry, tmp_path: Path
) -> None:
    which = await publish(registry.host, tmp_path, "G")
    async with bench.agent():
        await bench.grant(granted(bench, registry, which))
        await is_staged(bench, which)
        truth = await bench.report()
        lie = {"other": {which: {"state": "Staged", "lastUpdated": "2026-01-01T00:00:00Z"}}}
        forged = json.dumps({"status": {"counts": {"podRunningCnt": 7}, "caches": lie}})
        names = ("gkmcachenode", bench.node, "-n", bench.namespace)
        bench.cluster.kubectl("patch", *names, "--subresource=status", "--type=merge", "-p", forged)
        await bench.until(bench.report, lambda s: s == truth)
        bench.cluster.kubectl("delete", *names)
        await bench.until(bench.report, lambda s: s is not None and (s.caches or {}).keys() == {"vector-add"})


async def test_a_restarted_agent_knows_its_trees_and_writes_nothing_at_rest(
    bench: NodeBench, registry: RunningRegistry, tmp_path: Path
) -> None:
    which = await publish(registry.host, tmp_path, "H")
    await bench.grant(granted(bench, registry, which))
    async with bench.agent():
        await is_staged(bench, which)
    before = await bench.client.get(REPORTS, bench.node, bench.namespace)
    mark = bench.cluster.audit_mark()
    async with bench.agent() as agent:
        answer = await bench.until(
            lambda: _async(
                agent.answers.lookup(CacheKind.GKM_CACHE, bench.namespace, "vector-add", bench.namespace)
            ),
            lambda a: a.reason != "NotSynced",
        )
        assert answer.digest == which
        await asyncio.sleep(1)
    after = await bench.client.get(REPORTS, bench.node, bench.namespace)
    assert after.metadata.resource_version == before.metadata.resource_version
    writes = [
        event
        for event in bench.cluster.audit(mark)
        if event.verb in ("create", "update", "patch", "delete")
        and "gkm-agent-test" in (event.user_agent or "")
    ]
    assert writes == []


async def test_a_full_disk_budget_is_told_and_nothing_is_fetched(
    bench: NodeBench, registry: RunningRegistry, tmp_path: Path
) -> None:
    which = await publish(registry.host, tmp_path, "I")
    async with bench.agent(disk=DiskBudget(kept_free=0.0, most_bytes=10)):
        await bench.grant(granted(bench, registry, which))
        entry = await bench.until(
            lambda: bench.entry("vector-add", which), lambda e: e is not None and e.state == StageState.FAILED
        )
        assert entry.last_error.reason == "DiskBudget"
        assert metric(bench, "gkm_staging_failures_total", reason="DiskBudget") >= 1
        assert ("vector-add", "DiskBudget") in [told[:2] for told in bench.told]
        assert trees(bench.store) == set()


async def test_a_pod_that_comes_to_a_staged_cache_finds_it_relocated(
    bench: NodeBench, registry: RunningRegistry, tmp_path: Path
) -> None:
    which = await publish(registry.host, tmp_path, "M")
    async with bench.agent():
        await bench.grant(granted(bench, registry, which))
        await is_staged(bench, which)
        tree = bench.store.tree(which)
        assert tree is not None
        assert find_layer(tree, "/seen/here") is None
        await make_pod(bench, "/seen/here")
        await bench.until(lambda: _async(find_layer(tree, "/seen/here")))


async def test_a_damaged_tree_is_fetched_again_and_served_again(
    bench: NodeBench, registry: RunningRegistry, tmp_path: Path
) -> None:
    which = await publish(registry.host, tmp_path, "J")
    async with bench.agent() as agent:

        def answer() -> object:
            return agent.answers.lookup(CacheKind.GKM_CACHE, bench.namespace, "vector-add", bench.namespace)

        await bench.grant(granted(bench, registry, which))
        await is_staged(bench, which)
        before = await agent.trees.layer(which, "/cache")
        assert before is not None
        assert agent.state.layers == {which: before.bytes}
        broken = bench.store.layout.tree(which)
        (broken / "inventory.json").write_text("{")
        with pytest.raises(TreeDamagedError) as damaged:
            await agent.trees.layer(which, "/another")
        assert await agent.trees.lost(which, damaged.value)
        found = await bench.until(lambda: _async(answer()), lambda a: a.digest == which)
        assert found.digest == which
        assert bench.store.verify(which) == ()
        layer = await agent.trees.layer(which, "/another")
        assert layer is not None
        await agent._garbage.collect()
        assert agent.state.layers == {which: layer.bytes}
