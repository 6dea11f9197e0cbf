"""A cache changes or goes while pods use it: what they mounted stays theirs, and nothing stays behind them."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.devcluster import Cluster
from support.installed import SYSTEM, apply, eventually
from support.warm_pods import cache, claim, entries, inline, is_running, push, reported, row, sleeper, status

pytestmark = [pytest.mark.root, pytest.mark.triton, pytest.mark.timeout(1800)]


def test_a_new_image_reaches_new_pods_and_the_old_tree_goes_with_the_last_old_one(
    gkm: Any, empty_namespace: str, tmp_path: Path
) -> None:
    cluster, namespace = gkm.cluster, empty_namespace
    images = [
        push(cluster, tmp_path / str(number), f"kernels/rolled:{number}", "--kernels", str(number))
        for number in (1, 2)
    ]
    apply(cluster, cache("GKMCache", "kernels", namespace, image=images[0]))
    _start(cluster, namespace, "old")
    old, seen = status(cluster, namespace)["resolvedDigest"], entries(cluster, namespace, "old")
    assert len(seen) == 1

    apply(cluster, cache("GKMCache", "kernels", namespace, image=images[1]))
    eventually(lambda: status(cluster, namespace)["counts"]["podOutdatedCnt"] == 1, "the old pod is outdated")
    new = status(cluster, namespace)["resolvedDigest"]
    assert new != old
    eventually(
        lambda: all(r.get(new, {}).get("state") == "Staged" for r in reported(cluster, namespace).values()),
        "the new digest is staged",
    )
    _start(cluster, namespace, "new")
    assert len(entries(cluster, namespace, "new")) == 2
    assert entries(cluster, namespace, "old") == seen

    assert old in _trees(cluster)
    cluster.kubectl("-n", namespace, "delete", "pod", "old", "--grace-period=1")
    eventually(lambda: old not in _trees(cluster), "the old tree is collected", 120)
    assert new in _trees(cluster)
    eventually(lambda: row(cluster, namespace) == ("Running", 1), "no pod is outdated")


def test_a_cache_that_is_deleted_in_use_goes_with_its_last_pod(gkm: Any, namespace: str) -> None:
    cluster = gkm.cluster
    _start(cluster, namespace, "user")
    eventually(lambda: row(cluster, namespace) == ("Running", 1), "the pod is counted")
    uid = cluster.kubectl("-n", namespace, "get", "gkmc", "kernels", "-o", "jsonpath={.metadata.uid}")
    cluster.kubectl("-n", namespace, "delete", "gkmc", "kernels", "--wait=false")
    eventually(lambda: status(cluster, namespace)["phase"] == "Deleting", "it says that it is being deleted")
    assert len(entries(cluster, namespace, "user")) == 24

    cluster.kubectl("-n", namespace, "delete", "pod", "user", "--grace-period=1")
    for kind in ("gkmc", "pvc", "gkmcn"):
        eventually(lambda kind=kind: not cluster.kubectl("-n", namespace, "get", kind, "-o", "name"), kind)
    for kind in ("pv", "gkmg"):
        assert uid not in cluster.kubectl("get", kind, "-o", "json"), kind


def test_a_claim_that_is_deleted_by_hand_comes_back(gkm: Any, namespace: str) -> None:
    cluster = gkm.cluster

    def bound(but: str = "") -> str:
        found = cluster.run_kubectl("-n", namespace, "get", "pvc", "kernels", "-o", "json").stdout
        made = json.loads(found) if found else {"status": {}}
        usable = made["status"].get("phase") == "Bound" and "deletionTimestamp" not in made["metadata"]
        return made["metadata"]["uid"] if usable and made["metadata"]["uid"] != but else ""

    before = eventually(bound, "the claim is bound")
    cluster.kubectl("-n", namespace, "delete", "pvc", "kernels", "--wait=false")
    eventually(lambda: bound(before), "another claim is bound")
    apply(cluster, sleeper(namespace, "user", claim("kernels")))
    eventually(lambda: is_running(cluster, namespace, "user"), "a pod runs on it")
    assert len(entries(cluster, namespace, "user")) == 24


def _start(cluster: Cluster, namespace: str, name: str) -> None:
    apply(cluster, sleeper(namespace, name, inline("kernels", namespace)))
    eventually(lambda: is_running(cluster, namespace, name), f"{name} runs")


def _trees(cluster: Cluster) -> str:
    """The digests that nodes hold."""
    program = "import os; print(*os.listdir('/var/lib/gkm/trees'))"
    agents = cluster.kubectl("-n", SYSTEM, "get", "pod", "-o", "name").split()
    listed = [
        cluster.kubectl("-n", SYSTEM, "exec", agent, "--", "python3", "-c", program)
        for agent in agents
        if agent.startswith("pod/gkm-agent")
    ]
    return "".join(listed).replace("sha256-", "sha256:")
