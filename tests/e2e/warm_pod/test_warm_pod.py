"""GKMCache → grant → node → mount → hit: real kubelet, real containerd, real Triton, the product's own images."""

import uuid
from typing import Any

import pytest

from support.figures import note
from support.installed import apply, eventually
from support.warm_pods import cache, claim, compile_in_pod, counted, inline, row

pytestmark = [pytest.mark.root, pytest.mark.triton, pytest.mark.timeout(1800)]


def test_a_pod_hits_every_kernel_at_another_path_as_any_user(gkm: Any, namespace: str) -> None:
    cluster = gkm.cluster
    cold = compile_in_pod(cluster, namespace, "cold", {"emptyDir": {}}, "/cache")
    assert (cold["hits"], cold["compiled"]) == (0, 24)
    volumes = {
        "claim": (claim("kernels"), "/home/someone/.triton/cache"),
        "inline": (inline("kernels", namespace), "/elsewhere"),
    }
    for name, (volume, path) in volumes.items():
        warm = compile_in_pod(cluster, namespace, name, volume, path)
        assert (warm["hits"], warm["compiled"]) == (24, 0), name
        note(f"{name}: {warm['seconds']:.1f} s warm, {cold['seconds']:.1f} s cold")
        seen = eventually(lambda name=name: counted(cluster, namespace, name, hits=24), f"{name} is counted")
        assert (seen["misses"], seen["observation"]) == (0, "complete")
    eventually(lambda: row(cluster, namespace) == ("Running", 2), "both pods are counted")

    cluster.kubectl("-n", namespace, "delete", "pod", "claim", "inline", "--grace-period=1")
    eventually(lambda: row(cluster, namespace) == ("Extracted", 0), "it is staged and unused")


def test_a_kernel_that_is_missing_is_compiled_and_seen_by_nobody_else(gkm: Any, namespace: str) -> None:
    for name in ("first", "second"):
        # Each compiles it anew: what a pod adds is its own.
        report = compile_in_pod(
            gkm.cluster, namespace, name, claim("kernels"), "/cache", "--targets", "sm_90", "--extra"
        )
        assert (report["hits"], report["compiled"]) == (12, 1), name
        seen = eventually(
            lambda name=name: counted(gkm.cluster, namespace, name, hits=12, misses=1), f"{name} is counted"
        )
        assert seen["observation"] == "complete"


def test_a_cluster_cache_serves_the_namespaces_it_lists_and_no_other(gkm: Any, namespace: str) -> None:
    cluster, name = gkm.cluster, f"shared-{uuid.uuid4().hex[:8]}"
    apply(cluster, cache("ClusterGKMCache", name, image=gkm.image, workloadNamespaces=[namespace]))
    try:
        eventually(
            lambda: cluster.run_kubectl("-n", namespace, "get", "pvc", name).returncode == 0, "its claim"
        )
        for pod, volume in (("pvc", claim(name)), ("in", inline(name))):
            report = compile_in_pod(cluster, namespace, pod, volume, "/cache")
            assert (report["hits"], report["compiled"]) == (24, 0), pod
        cluster.kubectl("-n", namespace, "delete", "pod", "pvc", "in", "--grace-period=1")
    finally:
        cluster.kubectl("delete", "clustergkmcache", name, "--timeout=120s")
