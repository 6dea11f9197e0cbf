"""A cluster in which nothing happens is left alone: by the API server's own account of who wrote."""

import json
import time
from collections import Counter
from typing import Any

import pytest

from devcluster.audit import Event
from support.devcluster import Cluster
from support.installed import SYSTEM, apply, eventually
from support.warm_pods import all_gone, cache, claim, counted, is_running, sleeper

pytestmark = [pytest.mark.root, pytest.mark.triton, pytest.mark.timeout(1800)]

_CACHES = 20
_REST_SECONDS = 60
_SETTLED_SECONDS = 12
"""Counts are written at most every ten seconds: after so long without a write all of them are."""


def test_twenty_caches_on_two_nodes_cost_no_write_but_the_lease(gkm: Any, empty_namespace: str) -> None:
    cluster, namespace = gkm.cluster, empty_namespace
    all_gone(cluster, but=namespace)
    names = ["kernels", *(f"kernels-{number}" for number in range(1, _CACHES))]
    apply(cluster, *(cache("GKMCache", name, namespace, image=gkm.image) for name in names))
    apply(cluster, sleeper(namespace, "user", claim("kernels")))
    eventually(lambda: len(_ready(cluster, namespace)) == _CACHES, "all caches are ready", 180)
    eventually(lambda: is_running(cluster, namespace, "user"), "a pod has one mounted")
    eventually(lambda: counted(cluster, namespace, "user"), "the pod is counted")
    mark = cluster.audit_mark()

    def settled() -> bool:
        nonlocal mark
        if _writes(cluster.audit(mark)):
            mark = cluster.audit_mark()
            settled_at[0] = time.monotonic()
        return time.monotonic() - settled_at[0] > _SETTLED_SECONDS

    settled_at = [time.monotonic()]
    eventually(settled, "everything that is to be told is told", 180)
    mark = cluster.audit_mark()
    time.sleep(_REST_SECONDS)
    seen = cluster.audit(mark)
    assert _writes(seen) == Counter()
    assert any(_is_ours(event) and event.write for event in seen), (
        "not even the lease: is this the right log?"
    )


def _ready(cluster: Cluster, namespace: str) -> list[str]:
    """The caches that are staged on both nodes, and say so."""
    found = json.loads(cluster.kubectl("-n", namespace, "get", "gkmc", "-o", "json"))["items"]
    return [
        each["metadata"]["name"]
        for each in found
        for condition in each.get("status", {}).get("conditions", [])
        if (condition["type"], condition["status"]) == ("Ready", "True")
        and each["status"]["counts"]["nodeCnt"] == cluster.spec.nodes
    ]


def _is_ours(event: Event) -> bool:
    return event.user.username.startswith(f"system:serviceaccount:{SYSTEM}:")


def _writes(events: list[Event]) -> Counter[str]:
    """What our accounts wrote besides leases."""
    return Counter(
        f"{event.user.username} {event.verb} {event.object_ref.resource}/{event.object_ref.name}"
        for event in events
        if _is_ours(event) and event.write and event.object_ref and event.object_ref.resource != "leases"
    )
