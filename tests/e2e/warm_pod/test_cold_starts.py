"""A cache that cannot be had keeps no pod from starting, and the pod's Events say why it starts without.

Pods of a cache that says ``Wait`` wait, and start with it once it can be had.
"""

from pathlib import Path
from typing import Any

import pytest

from support.installed import apply
from support.unavailable import (
    fails_on_a_node,
    starts_cold,
    starts_warm,
    still_waits,
    two_caches,
    two_pods,
)
from support.warm_pods import cache, events, push

pytestmark = [pytest.mark.root, pytest.mark.triton, pytest.mark.timeout(1800)]


def test_a_cache_for_other_gpus(gkm: Any, empty_namespace: str, tmp_path: Path) -> None:
    cluster, namespace = gkm.cluster, empty_namespace
    image = push(cluster, tmp_path / "cache", "kernels/other:1", "--targets", "sm_80", "--kernels", "1")
    two_caches(cluster, namespace, image)
    two_pods(cluster, namespace)
    assert "does not fit this node" in starts_cold(cluster, namespace, "ArchMismatch")
    still_waits(cluster, namespace)

    fitting = cache("GKMCache", "patient", namespace, image=gkm.image, whenUnavailable="Wait")
    apply(cluster, fitting)
    starts_warm(cluster, namespace)


def test_an_image_that_is_not_there_yet(gkm: Any, empty_namespace: str, tmp_path: Path) -> None:
    cluster, namespace = gkm.cluster, empty_namespace
    image = f"{gkm.image.partition('/')[0]}/kernels/{namespace}:1"
    two_caches(cluster, namespace, image, resolved=False)
    two_pods(cluster, namespace)
    assert "conditions" in starts_cold(cluster, namespace, "NotGranted")
    for name in ("kernels", "patient"):
        assert image in events(cluster, namespace, name)["NotFound"]
    still_waits(cluster, namespace)

    push(cluster, tmp_path / "cache", f"kernels/{namespace}:1", "--kernels", "1")
    starts_warm(cluster, namespace)


def test_a_registry_that_is_down(gkm: Any, empty_namespace: str, tmp_path: Path) -> None:
    cluster, namespace = gkm.cluster, empty_namespace
    selector = '{"spec":{"selector":{"app.kubernetes.io/name":"%s"}}}'
    image = push(cluster, tmp_path / "cache", "kernels/late:1", "--kernels", "3")
    two_caches(cluster, namespace, image)
    try:
        cluster.kubectl("-n", "registry", "patch", "service", "registry", "-p", selector % "nobody")
        two_pods(cluster, namespace)
        assert image.partition("/")[0] in starts_cold(cluster, namespace, "Unavailable")
        fails_on_a_node(cluster, namespace, "Unavailable")
        still_waits(cluster, namespace)
    finally:
        cluster.kubectl("-n", "registry", "patch", "service", "registry", "-p", selector % "registry")
    starts_warm(cluster, namespace)
