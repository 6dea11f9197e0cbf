"""A cache that cannot be had keeps no pod from starting, and the pod's Events say why it starts without."""

from pathlib import Path
from typing import Any

import pytest

from support.devcluster import Cluster
from support.installed import apply, eventually
from support.warm_pods import cache, events, inline, is_running, push, sleeper, status

pytestmark = [pytest.mark.root, pytest.mark.triton, pytest.mark.timeout(1800)]

_WAIT_SECONDS = 15
_PROMISED = 15.0
"""So long after `_WAIT_SECONDS` the pod has to run at last."""


def test_a_cache_for_other_gpus(gkm: Any, empty_namespace: str, tmp_path: Path) -> None:
    image = push(gkm.cluster, tmp_path / "cache", "kernels/other:1", "--targets", "sm_80", "--kernels", "1")
    _cache(gkm.cluster, empty_namespace, image)
    message = _starts_cold(gkm.cluster, empty_namespace, "ArchMismatch")
    assert "does not fit this node" in message


def test_a_registry_that_is_down(gkm: Any, empty_namespace: str, tmp_path: Path) -> None:
    cluster, selector = gkm.cluster, '{"spec":{"selector":{"app.kubernetes.io/name":"%s"}}}'
    image = push(cluster, tmp_path / "cache", "kernels/late:1", "--kernels", "3")
    # OnDemand: nothing is pulled before the pod comes, and by then nobody answers.
    _cache(cluster, empty_namespace, image, staging="OnDemand")
    try:
        cluster.kubectl("-n", "registry", "patch", "service", "registry", "-p", selector % "nobody")
        message = _starts_cold(cluster, empty_namespace, "Unavailable")
        assert image.partition("/")[0] in message
    finally:
        cluster.kubectl("-n", "registry", "patch", "service", "registry", "-p", selector % "registry")


def _cache(cluster: Cluster, namespace: str, image: str, **spec: str) -> None:
    apply(cluster, cache("GKMCache", "kernels", namespace, image=image, waitSeconds=_WAIT_SECONDS, **spec))
    eventually(lambda: status(cluster, namespace).get("resolvedDigest"), "the image is resolved")


def _starts_cold(cluster: Cluster, namespace: str, reason: str) -> str:
    """Wait until a pod runs with an empty directory that it may write; what its Event of `reason` says."""
    apply(cluster, sleeper(namespace, "cold", inline("kernels", namespace)))
    eventually(lambda: is_running(cluster, namespace, "cold"), "the pod runs", _WAIT_SECONDS + _PROMISED)
    script = 'test -z "$(ls -A /cache)" && touch /cache/new'
    cluster.kubectl("-n", namespace, "exec", "cold", "--", "sh", "-c", script)
    told = eventually(lambda: events(cluster, namespace, "cold").get(reason), f"an Event {reason}", 15)
    assert told is not None
    return told
