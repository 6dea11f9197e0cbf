"""Disks that are full: the node's, which keeps caches away, and a pod's own, which is nobody else's business."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support import parts
from support.devcluster import Cluster
from support.full_disk import new_agent, pods_gone, store_on_small_disk
from support.installed import SYSTEM, apply, eventually
from support.small_disk import fill, make_room
from support.unavailable import (
    fails_on_a_node,
    on_node,
    starts_cold,
    starts_warm,
    still_waits,
    two_caches,
    two_pods,
)
from support.warm_pods import cache, claim, events, inline, is_running, push, sleeper

pytestmark = [pytest.mark.root, pytest.mark.triton, pytest.mark.timeout(1800)]

_NODE = "node-1"
_MIB = 1 << 20


def test_a_node_without_room(gkm: Any, empty_namespace: str, tmp_path: Path) -> None:
    cluster, namespace = gkm.cluster, empty_namespace
    image = push(cluster, tmp_path / "cache", "kernels/large:1", "--targets", "gfx942", "--kernels", "4")
    two_caches(cluster, namespace, image)
    with _limited(cluster, "1k"):
        two_pods(cluster, namespace, _NODE)
        assert "gkm.node.disk.limit" in starts_cold(cluster, namespace, "DiskBudget")
        fails_on_a_node(cluster, namespace, "DiskBudget")
        still_waits(cluster, namespace)
    starts_warm(cluster, namespace)


def test_a_node_whose_disk_is_full(gkm: Any, empty_namespace: str, tmp_path: Path) -> None:
    """Not a byte and not an inode are left where the agent keeps its store: before staging, and after."""
    cluster, namespace = gkm.cluster, empty_namespace
    parts.need_program("mkfs.ext4", "e2fsprogs")
    image = push(cluster, tmp_path / "cache", "kernels/full:1", "--targets", "gfx942", "--kernels", "3")
    two_caches(cluster, namespace, image)
    with store_on_small_disk(cluster, namespace, _NODE, size=32 * _MIB, inodes=512) as disk:
        fill(disk)
        two_pods(cluster, namespace, _NODE)
        assert "has no room" in starts_cold(cluster, namespace, "DiskBudget")
        _adds_a_little(cluster, namespace, "cold")
        fails_on_a_node(cluster, namespace, "DiskBudget")
        still_waits(cluster, namespace)
        make_room(disk)
        starts_warm(cluster, namespace)

        fill(disk)
        for name, of in (("late", "kernels"), ("waits-too", "patient")):
            apply(cluster, on_node(sleeper(namespace, name, inline(of, namespace)), _NODE))
        assert "is full" in starts_cold(cluster, namespace, "StoreFull", "late")
        _adds_a_little(cluster, namespace, "late")
        told = eventually(lambda: events(cluster, namespace, "waits-too").get("FailedMount"), "it tried")
        assert "is full" in told
        still_waits(cluster, namespace, "waits-too")
        # Neither an agent that begins needs room, nor what ends.
        new_agent(cluster, _NODE)
        assert _write(cluster, namespace, "late", 2).returncode == 0
        pods_gone(cluster, namespace, _NODE, "cold", "waits")
        make_room(disk)
        starts_warm(cluster, namespace, "waits-too")


def test_a_pod_that_fills_its_mount_is_alone_with_that(gkm: Any, empty_namespace: str) -> None:
    cluster, namespace = gkm.cluster, empty_namespace
    apply(cluster, cache("GKMCache", "kernels", namespace, image=gkm.image, writeLimit="8Mi"))
    volumes = {"greedy": claim("kernels"), "modest": claim("kernels"), "other": inline("kernels", namespace)}
    apply(cluster, *(on_node(sleeper(namespace, name, volumes[name]), _NODE) for name in volumes))
    for name in volumes:
        eventually(lambda name=name: is_running(cluster, namespace, name), f"{name} runs")

    done = _write(cluster, namespace, "greedy", 64)
    assert done.returncode != 0
    assert "No space left on device" in done.stderr
    inside = ("-n", namespace, "exec", "greedy", "--", "sh", "-c")
    size, room = cluster.kubectl(*inside, "stat -c %s /cache/big; df -k /cache | tail -n 1").split("\n", 1)
    # Beside what the pod may add there is room for the files with rewritten paths.
    assert 4 * _MIB < int(size) < 12 * _MIB
    assert int(room.split()[1]) << 10 < 16 * _MIB
    assert cluster.kubectl(*inside, "cat /cache/*/__grp__* | wc -c").strip() != "0"
    for name in ("modest", "other"):
        assert _write(cluster, namespace, name, 2).returncode == 0

    eventually(lambda: "WriteLimitReached" in events(cluster, namespace, "greedy"), "an Event says so", 180)
    where = ("-n", namespace, "get", "events", "-o", "json")
    told = [e for e in json.loads(cluster.kubectl(*where))["items"] if e["reason"] == "WriteLimitReached"]
    assert [event["involvedObject"]["name"] for event in told] == ["greedy"]


def _adds_a_little(cluster: Cluster, namespace: str, pod: str) -> None:
    """`pod`, which started cold, was told that it may add little, and may add that."""
    eventually(lambda: "DiskFull" in events(cluster, namespace, pod), "an Event says so")
    assert _write(cluster, namespace, pod, 2).returncode == 0
    assert "No space left on device" in _write(cluster, namespace, pod, 64).stderr


def _write(cluster: Cluster, namespace: str, pod: str, size: int) -> Any:
    """Write `size` MiB into the pod's mount, and how that ended."""
    script = f"dd if=/dev/zero of=/cache/big bs=64k count={16 * size}"
    return cluster.run_kubectl("-n", namespace, "exec", pod, "--", "sh", "-c", script)


@contextmanager
def _limited(cluster: Cluster, limit: str) -> Iterator[None]:
    """For the block, the trees of `_NODE` may have `limit` together."""
    patch = '{"data":{"gkm.node.disk.limit":"%s"}}'
    before = cluster.kubectl(
        "-n", SYSTEM, "get", "configmap", "gkm-config", "-o", r"jsonpath={.data.gkm\.node\.disk\.limit}"
    )
    try:
        _configure(cluster, patch % limit)
        yield
    finally:
        _configure(cluster, patch % before)


def _configure(cluster: Cluster, patch: str) -> None:
    """Change gkm-config, and start the agent of `_NODE` anew, which reads it then."""
    cluster.kubectl("-n", SYSTEM, "patch", "configmap", "gkm-config", "-p", patch)
    agent = (
        "-n",
        SYSTEM,
        "-l",
        "app.kubernetes.io/name=gkm-agent",
        "--field-selector",
        f"spec.nodeName={_NODE}",
    )
    before = cluster.kubectl("get", "pod", *agent, "-o", "name")
    cluster.kubectl("delete", "pod", *agent)
    eventually(
        lambda: (now := cluster.kubectl("get", "pod", *agent, "-o", "name")) and now != before, "a new agent"
    )
    cluster.kubectl("wait", "--for=condition=Ready", "pod", *agent, "--timeout=120s")
