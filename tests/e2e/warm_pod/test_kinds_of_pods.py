"""Whatever kind of pod mounts the cache, and however: nothing is compiled again, by the compiler's own count."""

from pathlib import Path
from typing import Any

import pytest

from support.installed import apply, eventually
from support.warm_pods import cache, claim, compiler, counted, events, inline, push, report

pytestmark = [pytest.mark.root, pytest.mark.triton, pytest.mark.timeout(1800)]


def test_a_deployment_of_three_over_both_nodes_shares_one_claim(gkm: Any, namespace: str) -> None:
    cluster, labels = gkm.cluster, {"app": "warm"}
    pod = compiler(namespace, "warm", claim("kernels"), "/cache")
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }
    template = {
        "metadata": {"labels": labels},
        "spec": {**pod["spec"], "restartPolicy": "Always", "topologySpreadConstraints": [spread]},
    }
    apply(
        cluster,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "warm", "namespace": namespace},
            "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": template},
        },
    )
    where = ("-n", namespace, "get", "pod", "-l", "app=warm", "-o")
    names = eventually(
        lambda: len(found := cluster.kubectl(*where, "name").split()) == 3 and found, "three pods"
    )
    for name in names:
        told = report(cluster, namespace, name.removeprefix("pod/"))
        assert (told["hits"], told["compiled"]) == (24, 0), name
    assert len(set(cluster.kubectl(*where, "jsonpath={.items[*].spec.nodeName}").split())) == 2


def test_a_read_only_mount_is_warm(gkm: Any, namespace: str) -> None:
    apply(gkm.cluster, compiler(namespace, "reader", claim("kernels"), "/cache", mount={"readOnly": True}))
    told = report(gkm.cluster, namespace, "reader")
    assert (told["hits"], told["compiled"]) == (24, 0)
    assert "ReadOnlyMount" in events(gkm.cluster, namespace, "reader")


def test_a_pod_with_users_of_its_own_is_warm(gkm: Any, namespace: str) -> None:
    pod = compiler(namespace, "remapped", inline("kernels", namespace), "/elsewhere")
    # A user namespace holds 65536 users.
    pod["spec"] |= {"hostUsers": False, "securityContext": {"runAsUser": 4321, "runAsGroup": 4321}}
    apply(gkm.cluster, pod)
    told = report(gkm.cluster, namespace, "remapped")
    assert (told["hits"], told["compiled"]) == (24, 0)


def test_a_part_of_a_cache_by_sub_path_is_warm(gkm: Any, empty_namespace: str, tmp_path: Path) -> None:
    cluster, arguments = gkm.cluster, ("--targets", "sm_90", "--kernels", "2")
    image = push(cluster, tmp_path / "caches", "kernels/whole:1", *arguments, below="triton")
    apply(cluster, cache("GKMCache", "kernels", empty_namespace, image=image))
    apply(
        cluster,
        compiler(
            empty_namespace,
            "part",
            inline("kernels", empty_namespace),
            "/home/someone/triton",
            *arguments,
            mount={"subPath": "triton"},
        ),
    )
    told = report(cluster, empty_namespace, "part")
    assert (told["hits"], told["compiled"]) == (2, 0)
    seen = eventually(lambda: counted(cluster, empty_namespace, "part", hits=2), "it is counted")
    assert (seen["misses"], seen["observation"]) == (0, "complete")
