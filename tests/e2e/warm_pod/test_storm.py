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
from support.figures import note
from support.installed import apply, eventually, eventually_none
from support.leaks import nothing_leaks
from support.outages import all_ready, force_delete_leader, force_delete_operators, leader, replace_agent
from support.warm_pods import cache, claim, entries, events, inline, is_running, push, sleeper

pytestmark = [pytest.mark.root, pytest.mark.triton, pytest.mark.timeout(1800)]

_SECONDS = 120
_LEADER_SECONDS = 10
_AGENT_SECONDS = 8
_CACHES_SECONDS = 1
_POD_SECONDS = 3
_CACHES = 8
_PODS = 6
_COLD = {"CacheUnavailable", "NotSynced", "Staging"}


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
    leaders: set[str] = field(default_factory=set)
    """Pods of the operator that led, and were killed for it."""


def test_two_minutes_of_kills_and_churn_end_in_what_was_asked_for(
    gkm: Any, namespace: str, tmp_path: Path
) -> None:
    cluster = gkm.cluster
    images = [
        push(cluster, tmp_path / str(number), f"kernels/storm:{number}", "--kernels", str(number))
        for number in (1, 2)
    ]
    wanted = Wanted(images, random.Random(5))
    eventually_none(lambda: _amiss(cluster, namespace, wanted), "the cache of the pods is there", 120)
    begun = time.monotonic()
    happenings = {
        _LEADER_SECONDS: _kill_the_leader,
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
    # The last time nobody is left who could take the lease at once.
    last = force_delete_operators(cluster) | wanted.leaders
    ended = time.monotonic()
    note(f"{len(wanted.leaders)} leaders and {wanted.kills['agent process']} agents killed")
    note(f"{wanted.made} pods, {wanted.turn} caches made, {len(wanted.caches)} caches left")
    assert len(wanted.leaders) > 1
    assert wanted.kills["agent process"] > 1

    eventually(lambda: leader(cluster) not in {"", *last}, "another leads", 120)
    note(f"another led {time.monotonic() - ended:.0f} s after the last kill")
    eventually_none(lambda: _amiss(cluster, namespace, wanted), "the caches are what was asked for", 180)
    note(f"caches converged {time.monotonic() - ended:.0f} s after the last kill")
    all_ready(cluster)
    for pod in wanted.pods:
        eventually(lambda pod=pod: is_running(cluster, namespace, pod), f"{pod} runs", 180)
        assert len(entries(cluster, namespace, pod)) == 24, pod
        assert not _COLD & events(cluster, namespace, pod).keys(), pod
    nothing_leaks(cluster)
    note(f"nodes converged {time.monotonic() - ended:.0f} s after the last kill")


def _kill_the_leader(cluster: Cluster, _: str, wanted: Wanted) -> None:
    if killed := force_delete_leader(cluster):
        wanted.leaders.add(killed)


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


def _amiss(cluster: Cluster, namespace: str, wanted: Wanted) -> list[str]:
    """In what the caches, their claims, volumes and grants are not what was asked for."""
    caches = {each["metadata"]["name"]: each for each in _objects(cluster, namespace, "gkmc")}
    claims = {
        each["metadata"]["name"]: each["status"]["phase"] for each in _objects(cluster, namespace, "pvc")
    }
    cluster_wide = set(cluster.kubectl("get", "pv,gkmg", "-o", "name").split())
    expected = {**wanted.caches, "kernels": ""}
    found = [f"no cache {name}" for name in expected.keys() - caches.keys()]
    found += [f"cache {name} is there" for name in caches.keys() - expected.keys()]
    found += [f"claim {name} is there" for name in claims.keys() - expected.keys()]
    digests: dict[str, set[str]] = {}
    for name, each in caches.items():
        meta, status = each["metadata"], each.get("status", {})
        digests.setdefault(each["spec"]["image"], set()).add(status.get("resolvedDigest", ""))
        if expected.get(name) and each["spec"]["image"] != expected[name]:
            found.append(f"{name} is of another image")
        if status.get("observedGeneration") != meta["generation"]:
            found.append(f"{name} was changed and not looked at")
        found += [
            f"{name}: {condition['type']}: {condition['reason']}: {condition['message']}"
            for condition in status.get("conditions", [])
            if condition["type"] != "Verified" and condition["status"] != "True"
        ]
        if claims.get(name) != "Bound":
            found.append(f"{name}: its claim is {claims.get(name)}")
        needed = {f"persistentvolume/gkm-{meta['uid']}-{namespace}", f"gkmgrant.gkm.io/{meta['uid']}"}
        found += [f"{name}: no {missing}" for missing in needed - cluster_wide]
    # Of one image, one digest; of another image, another.
    if len({digest for each in digests.values() for digest in each}) != len(digests):
        found.append(f"digests: {digests}")
    return found


def _objects(cluster: Cluster, namespace: str, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cluster.kubectl("-n", namespace, "get", kind, "-o", "json"))[
        "items"
    ]
    return found
