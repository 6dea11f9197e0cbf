"""Caches that cannot be had, and the pods that want them: one that starts cold, one that waits."""

import json
from datetime import datetime, timedelta

from support.devcluster import Cluster
from support.figures import note
from support.installed import apply, eventually
from support.warm_pods import Objects, cache, events, inline, is_running, sleeper

WAIT_SECONDS = 10
_PROMISED = timedelta(seconds=WAIT_SECONDS + 15)
"""So long after its creation the container of a pod runs, whatever is wrong with its cache."""
_PATIENCE = 180.0
"""Seconds; what was mended is tried again within a minute, and kubelet's calls come back as late."""


def two_caches(cluster: Cluster, namespace: str, image: str, *, resolved: bool = True) -> None:
    """``kernels``, without which pods start after `WAIT_SECONDS`, and ``patient``, for which they wait.

    Nothing is pulled before pods come. Returns when `image` is `resolved`, if it is to be.
    """
    common = {"image": image, "staging": "OnDemand"}
    apply(
        cluster,
        cache("GKMCache", "kernels", namespace, waitSeconds=WAIT_SECONDS, **common),
        cache("GKMCache", "patient", namespace, whenUnavailable="Wait", **common),
    )
    for name in ("kernels", "patient") if resolved else ():
        eventually(lambda name=name: _status(cluster, namespace, name).get("resolvedDigest"), "a digest")


def two_pods(cluster: Cluster, namespace: str, node: str | None = None) -> None:
    """``cold``, of ``kernels``, and ``waits``, of ``patient``."""
    for name, of in (("cold", "kernels"), ("waits", "patient")):
        apply(cluster, on_node(sleeper(namespace, name, inline(of, namespace)), node))


def on_node(pod: Objects, node: str | None) -> Objects:
    """`pod`, for one node where that is given."""
    if node is not None:
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return pod


def starts_cold(cluster: Cluster, namespace: str, reason: str, pod: str = "cold") -> str:
    """Wait until `pod` runs with an empty directory that it may write, in the time that is promised, by the
    cluster's own clock; what its Event of `reason` says."""
    eventually(lambda: is_running(cluster, namespace, pod), f"{pod} runs", _PATIENCE)
    took = seconds_to_start(cluster, namespace, pod)
    note(f"{pod}: without its cache ({reason}) {took.seconds} s after it was made")
    assert took <= _PROMISED, f"{pod} started {took} after it was made"
    script = 'test -z "$(ls -A /cache)" && touch /cache/new'
    cluster.kubectl("-n", namespace, "exec", pod, "--", "sh", "-c", script)
    told = eventually(lambda: events(cluster, namespace, pod).get(reason), f"an Event {reason} on {pod}", 15)
    assert told is not None
    return told


def seconds_to_start(cluster: Cluster, namespace: str, pod: str) -> timedelta:
    """From the creation of `pod` to the start of its container, in whole seconds."""
    found = json.loads(cluster.kubectl("-n", namespace, "get", "pod", pod, "-o", "json"))
    (container,) = found["status"]["containerStatuses"]
    return _time(container["state"]["running"]["startedAt"]) - _time(found["metadata"]["creationTimestamp"])


def fails_on_a_node(cluster: Cluster, namespace: str, reason: str) -> None:
    """Wait until status, counts and Events of both caches say that a node cannot stage them, and why."""

    def said(name: str) -> bool:
        status = _status(cluster, namespace, name)
        error = status.get("lastError") or {}
        counted = status["phase"] == "Error" and status["counts"]["nodeErrorCnt"] >= 1
        return counted and error.get("reason") == reason and reason in events(cluster, namespace, name)

    for name in ("kernels", "patient"):
        eventually(lambda name=name: said(name), f"{name} says {reason}")


def still_waits(cluster: Cluster, namespace: str, pod: str = "waits") -> None:
    """`pod` has not started, and nobody told it to start cold."""
    assert not is_running(cluster, namespace, pod)
    assert events(cluster, namespace, pod).keys() <= {"Scheduled", "FailedMount", "WaitingForCache"}


def starts_warm(cluster: Cluster, namespace: str, pod: str = "waits") -> None:
    """Wait until `pod` runs, with the cache."""
    eventually(lambda: is_running(cluster, namespace, pod), f"{pod} runs", _PATIENCE)
    listed = cluster.kubectl("-n", namespace, "exec", pod, "--", "sh", "-c", "ls /cache/*/__grp__*")
    assert listed.strip()


def _status(cluster: Cluster, namespace: str, name: str) -> Objects:
    found = json.loads(cluster.kubectl("-n", namespace, "get", "gkmc", name, "-o", "json"))
    return dict(found.get("status", {}))


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
