"""Everything at once for two minutes: operators and agents killed, caches and pods coming, changing and going.

Afterwards what is there is what was asked for last, and nothing else.
"""

import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from devcluster.layout import node_names
from support.devcluster import Cluster
from support.installed import apply, eventually
from support.leaks import leaks
from support.outages import all_ready, force_delete_operators, replace_agent
from support.warm_pods import cache, claim, entries, events, inline, is_running, push, sleeper

pytestmark = [pytest.mark.root, pytest.mark.triton, pytest.mark.timeout(1800)]

_SECONDS = 120
_OPERATORS_SECONDS = 10
_AGENT_SECONDS = 8
_CACHES_SECONDS = 1
_POD_SECONDS = 3
_CACHES = 8
_PODS = 6
_COLD = {"CacheUnavailable", "CacheNotFound", "NotSynced", "Staging"}


@dataclass
class Wanted:
    """What was asked for last."""

    images: list[str]
    random: random.Random
    caches: dict[str, str] = field(default_factory=dict)
    """Image by name."""
    pods: list[str] = field(default_factory=list)
    made: int = 0
    turn: int = 0
    """How many caches were made."""
    kills: Counter[str] = field(default_factory=Counter)


def test_two_minutes_of_kills_and_churn_end_in_what_was_asked_for(
    gkm: Any, namespace: str, tmp_path: Path
) -> None:
    cluster = gkm.cluster
    images = [
        push(cluster, tmp_path / str(number), f"kernels/storm:{number}", "--kernels", str(number))
        for number in (1, 2)
    ]
    eventually(lambda: "kernels" in _delivered(cluster, namespace), "the cache of the pods is there", 120)
    wanted = Wanted(images, random.Random(5))
    begun = time.monotonic()
    happenings = {
        _OPERATORS_SECONDS: _kill_operators,
        _AGENT_SECONDS: _kill_an_agent,
        _CACHES_SECONDS: _change_caches,
        _POD_SECONDS: _change_pods,
    }
    due = dict.fromkeys(happenings, 0.0)
    while (now := time.monotonic() - begun) < _SECONDS:
        for seconds, happen in happenings.items():
            if now >= due[seconds]:
                due[seconds] = now + seconds
                happen(cluster, namespace, wanted)
        time.sleep(0.1)
    ended = time.monotonic()
    print(
        f"kills: {dict(wanted.kills)}; {wanted.made} pods, {wanted.turn} caches, of these left {len(wanted.caches)}"
    )
    assert wanted.kills["agent process"] > 1

    eventually(
        lambda: _delivered(cluster, namespace).keys() == {*wanted.caches, "kernels"}, "the caches", 120
    )
    eventually(lambda: _digests(cluster, namespace, wanted), "each cache serves its last image", 120)
    print(f"caches converged {time.monotonic() - ended:.0f} s after the last kill")
    all_ready(cluster)
    for pod in wanted.pods:
        eventually(lambda pod=pod: is_running(cluster, namespace, pod), f"{pod} runs", 180)
        assert len(entries(cluster, namespace, pod)) == 24, pod
        assert not _COLD & events(cluster, namespace, pod).keys(), pod
    eventually(lambda: not leaks(cluster), "nothing is left over", 120)
    print(f"nodes converged {time.monotonic() - ended:.0f} s after the last kill")


def _kill_operators(cluster: Cluster, _: str, wanted: Wanted) -> None:
    force_delete_operators(cluster)
    wanted.kills["operator"] += 1


def _kill_an_agent(cluster: Cluster, _: str, wanted: Wanted) -> None:
    node = node_names(cluster.spec.nodes)[wanted.kills["agent"] % cluster.spec.nodes]
    wanted.kills["agent process"] += replace_agent(cluster, node)
    wanted.kills["agent"] += 1


def _change_caches(cluster: Cluster, namespace: str, wanted: Wanted) -> None:
    """Make one, change one, delete one; now and then take a claim away by hand."""
    known = sorted(wanted.caches)
    wanted.turn += 1
    made = {f"cache-{wanted.turn}": wanted.random.choice(wanted.images)}
    if known:
        made[wanted.random.choice(known)] = wanted.random.choice(wanted.images)
    apply(cluster, *(cache("GKMCache", name, namespace, image=image) for name, image in made.items()))
    wanted.caches |= made
    if len(known) >= _CACHES:
        gone = wanted.random.choice(known)
        del wanted.caches[gone]
        cluster.kubectl("-n", namespace, "delete", "gkmc", gone, "--wait=false")
    elif known and wanted.random.random() < 0.2:
        which = wanted.random.choice(known)
        cluster.kubectl("-n", namespace, "delete", "pvc", which, "--wait=false", "--ignore-not-found")


def _change_pods(cluster: Cluster, namespace: str, wanted: Wanted) -> None:
    """Start one, by claim or inline; where there are enough, delete one."""
    if len(wanted.pods) >= _PODS:
        gone = wanted.pods.pop(wanted.random.randrange(_PODS))
        cluster.kubectl("-n", namespace, "delete", "pod", gone, "--wait=false")
    name = f"pod-{wanted.made}"
    volume = claim("kernels") if wanted.made % 2 else inline("kernels", namespace)
    apply(cluster, sleeper(namespace, name, volume))
    wanted.pods.append(name)
    wanted.made += 1


def _delivered(cluster: Cluster, namespace: str) -> dict[str, Any]:
    """The caches by name; empty while one of them is on its way in, or out."""
    found = json.loads(cluster.kubectl("-n", namespace, "get", "gkmc", "-o", "json"))["items"]
    claims = json.loads(cluster.kubectl("-n", namespace, "get", "pvc", "-o", "json"))["items"]
    bound = {each["metadata"]["name"] for each in claims if each["status"]["phase"] == "Bound"}
    volumes = set(cluster.kubectl("get", "pv", "-o", "name").split())
    grants = set(cluster.kubectl("get", "gkmg", "-o", "name").split())
    for each in found:
        meta, status = each["metadata"], each.get("status", {})
        conditions = {c["type"]: c["status"] for c in status.get("conditions", [])}
        there = (
            "deletionTimestamp" not in meta
            and status.get("observedGeneration") == meta["generation"]
            and {conditions.get("Ready"), conditions.get("Delivered"), conditions.get("Resolved")} == {"True"}
            and meta["name"] in bound
            and f"persistentvolume/gkm-{meta['uid']}-{namespace}" in volumes
            and f"gkmgrant.gkm.io/{meta['uid']}" in grants
        )
        if not there:
            return {}
    return {each["metadata"]["name"]: each for each in found}


def _digests(cluster: Cluster, namespace: str, wanted: Wanted) -> bool:
    """Whether caches of one image have one digest, and those of different images different ones."""
    found = _delivered(cluster, namespace)
    pairs = {
        (image, found[name]["status"]["resolvedDigest"])
        for name, image in wanted.caches.items()
        if name in found
    }
    return len(pairs) == len({image for image, _ in pairs}) == len({digest for _, digest in pairs})
