"""Mounts outlive kubelet's end, and none outlives the node's: there pods start again, warm, with fresh uppers."""

from typing import Any

import pytest

from devcluster.layout import node_names
from support.devcluster import Cluster
from support.installed import apply, eventually
from support.leaks import held, nothing_leaks
from support.outages import all_ready
from support.warm_pods import claim, counted, entries, inline, is_running, row, sleeper, staged_on

pytestmark = [pytest.mark.root, pytest.mark.triton, pytest.mark.timeout(1800)]


@pytest.fixture
def node(gkm: Any, namespace: str) -> str:
    """A node that has the cache, and not the registry."""
    registry = gkm.cluster.kubectl(
        "-n", "registry", "get", "pod", "registry", "-o", "jsonpath={.spec.nodeName}"
    )
    found = next(name for name in node_names(gkm.cluster.spec.nodes) if name != registry)
    eventually(lambda: staged_on(gkm.cluster, namespace, found), "the cache is staged", 120)
    return found


def test_a_kubelet_that_starts_again_finds_each_mount_once(gkm: Any, namespace: str, node: str) -> None:
    cluster = gkm.cluster
    pods = {"inline": inline("kernels", namespace), "claim": claim("kernels")}
    for name, volume in pods.items():
        _start(cluster, namespace, name, volume, node)
        cluster.kubectl("-n", namespace, "exec", name, "--", "touch", "/cache/mine")
    before = held(cluster, node)
    assert {before.targets[target] for target in before.targets} == {1}

    cluster.kill_daemon(node, "kubelet")
    # Kubelet publishes the volumes of pods that run once more; a new pod shows that it is at work again.
    _start(cluster, namespace, "later", claim("kernels"), node)
    after = held(cluster, node)
    assert before.journals.items() <= after.journals.items()
    assert len(after.journals) == len(before.journals) + 1
    assert after.targets == {journal["target"]: 1 for journal in after.journals.values()}
    for name in pods:
        assert _restarts(cluster, namespace, name) == 0
        cluster.kubectl("-n", namespace, "exec", name, "--", "test", "-f", "/cache/mine")
    eventually(lambda: row(cluster, namespace) == ("Running", 3), "each pod is counted once")
    cluster.kubectl("-n", namespace, "delete", "pod", "--all", "--wait=false")
    eventually(lambda: row(cluster, namespace) == ("Extracted", 0), "no pod is counted")
    nothing_leaks(cluster)


def test_a_node_that_starts_again_has_its_pods_warm_and_no_mount_of_before(
    gkm: Any, namespace: str, node: str
) -> None:
    cluster = gkm.cluster
    pods = {"inline": inline("kernels", namespace), "claim": claim("kernels")}
    for name, volume in (pods | {"gone": inline("kernels", namespace)}).items():
        _start(cluster, namespace, name, volume, node)
        cluster.kubectl("-n", namespace, "exec", name, "--", "touch", "/cache/mine")
    before = held(cluster, node)

    cluster.cut_power(node)
    # Nobody is there to take its mount away; whoever comes next finds its directories.
    cluster.kubectl("-n", namespace, "delete", "pod", "gone", "--force", "--grace-period=0")
    cluster.boot(node)
    for name in pods:
        eventually(lambda name=name: _restarts(cluster, namespace, name) == 1, f"{name} starts again", 180)
        eventually(lambda name=name: is_running(cluster, namespace, name), f"{name} runs", 180)
        assert len(entries(cluster, namespace, name)) == 24, name
        assert "mine" not in cluster.kubectl("-n", namespace, "exec", name, "--", "ls", "/cache"), name
        eventually(lambda name=name: counted(cluster, namespace, name), f"{name} is counted")
    after = held(cluster, node)
    assert not before.journals.keys() & after.journals.keys()
    eventually(lambda: row(cluster, namespace) == ("Running", 2), "each pod is counted once")
    all_ready(cluster)
    nothing_leaks(cluster)


def _start(cluster: Cluster, namespace: str, name: str, volume: Any, node: str) -> None:
    pod = sleeper(namespace, name, volume)
    pod["spec"]["nodeName"] = node
    apply(cluster, pod)
    eventually(lambda: is_running(cluster, namespace, name), f"{name} runs", 120)
    assert len(entries(cluster, namespace, name)) == 24


def _restarts(cluster: Cluster, namespace: str, pod: str) -> int:
    where = ("-n", namespace, "get", "pod", pod, "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
    return int(cluster.kubectl(*where))
