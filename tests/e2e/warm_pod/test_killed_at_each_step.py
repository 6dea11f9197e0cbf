"""The agent killed at every step of staging, relocating, publishing and unpublishing that leaves a trace.

A pod meets up to two kills, one on its way to run and one on its way to end. It runs warm, and nothing stays of it.
"""

import multiprocessing
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from devcluster.layout import node_names
from support.devcluster import Cluster
from support.figures import note
from support.installed import apply, eventually
from support.leaks import nothing_leaks
from support.outages import agent_process, all_ready, replace_agent
from support.steps import PUBLISHING, RELOCATING, STAGING, UNPUBLISHING, Traces, Watched, hurry, kill_in
from support.warm_pods import cache, digest_of, inline, is_running, push_made, sleeper

pytestmark = [pytest.mark.root, pytest.mark.timeout(1800)]

RUNS, GONE = "the pod runs", "the pod is gone"
"""What comes after the last step."""

_KERNELS = 60
_MISSES = 15
"""Kills that may fall beside their step, or come too late, on one node: some steps are over in 0.2 ms."""


def test_an_agent_killed_at_each_step(gkm: Any, empty_namespace: str, tmp_path: Path) -> None:
    cluster, begun = gkm.cluster, time.monotonic()
    starts = [*STAGING, *RELOCATING, *PUBLISHING, RUNS]
    ends = [*UNPUBLISHING, GONE]
    with _watchers() as watchers, ThreadPoolExecutor() as threads:
        places = [
            _Place(cluster, empty_namespace, name, tmp_path / name, watchers, starts[n::2], ends[n::2])
            for n, name in enumerate(node_names(cluster.spec.nodes))
        ]
        # Each waits for kubelet most of the time.
        for done in [threads.submit(place.go_through_them) for place in places]:
            done.result()
    assert sorted(step for place in places for step in place.fell) == sorted([*starts, *ends])
    all_ready(cluster)
    words = ("-n", empty_namespace, "get", "pod", "-o", "name")
    eventually(lambda: not cluster.kubectl(*words), "all pods are gone", 180)
    nothing_leaks(cluster)
    note(f"{len(starts) + len(ends)} kills, one in each step, in {time.monotonic() - begun:.0f} s")
    note(f"beside their steps: {sorted(step for place in places for step in place.missed)}")


def _watchers() -> Executor:
    """One for each node."""
    fresh = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(2, mp_context=fresh, initializer=hurry)


@dataclass
class _Place:
    """A node, and the steps in which its agent is to be killed."""

    cluster: Cluster
    namespace: str
    node: str
    folder: Path
    watchers: Executor
    starts: list[str]
    ends: list[str]
    fell: list[str] = field(default_factory=list)
    """The steps in which it was killed."""
    missed: list[str] = field(default_factory=list)
    pods: int = 0
    cache: str = ""
    digest: str = ""

    def go_through_them(self) -> None:
        while self.starts or self.ends:
            self.one_pod()
            assert len(self.missed) <= _MISSES, f"{self.node}: no kill fell in: {[*self.starts, *self.ends]}"

    def one_pod(self) -> None:
        """A pod from its creation to its end, and the kills that are due."""
        self.pods += 1
        name, start = f"{self.node}-{self.pods}", next(iter(self.starts), None)
        if start in STAGING or not self.cache:
            self.another_cache(name)
        # A layer is made once for each path.
        root = f"/{name}" if start in RELOCATING else "/cache"
        at = Traces(Watched.of(self.cluster, self.node), self.digest, name, root)
        pod = self.pod(name, root)

        self.kill(self.starts, RUNS, at, lambda: apply(self.cluster, pod))
        eventually(lambda: is_running(self.cluster, self.namespace, name), f"{name} runs", 180)
        self.kill_after(self.starts, RUNS)
        assert self.kernels(name, root) == _KERNELS, name
        words = ("-n", self.namespace, "delete", "pod", name, "--wait=false")
        if not self.ends:
            self.cluster.kubectl(*words)
            return  # that it goes is seen in the end
        self.kill(self.ends, GONE, at, lambda: self.cluster.kubectl(*words))
        eventually(lambda: not self.is_there(name), f"{name} is gone", 180)
        eventually(at.gone, f"nothing is left of {name}", 60)
        self.kill_after(self.ends, GONE)

    def kill(self, due: list[str], last: str, at: Traces, begin: Any) -> None:
        """Have the agent do what `begin` asks for; kill it in the first step that is `due`."""
        if not due or due[0] == last:
            begin()
            return
        agent = agent_process(self.cluster, self.node)
        killed = self.watchers.submit(kill_in, due[0], agent, at)
        begin()
        if killed.result():
            self.fell.append(due.pop(0))
        else:
            self.missed.append(due[0])
        if not agent.alive():
            replace_agent(self.cluster, self.node)

    def kill_after(self, due: list[str], last: str) -> None:
        """Kill the agent, if that is `due` once all is done."""
        if due == [last]:
            agent_process(self.cluster, self.node)
            assert replace_agent(self.cluster, self.node) > 0
            self.fell.append(due.pop(0))

    def another_cache(self, name: str) -> None:
        """One that is on no node, and is staged when a pod comes."""
        image = push_made(self.cluster, self.folder / name, f"kernels/{self.namespace}:{name}", _KERNELS)
        self.cache, self.digest = name, digest_of(self.cluster, image)
        spec = {"image": image, "staging": "OnDemand", "whenUnavailable": "Wait"}
        apply(self.cluster, cache("GKMCache", name, self.namespace, **spec))
        words = ("-n", self.namespace, "get", "gkmc", name, "-o", "jsonpath={.status.resolvedDigest}")
        eventually(lambda: self.cluster.kubectl(*words) == self.digest, f"{name} is resolved")

    def pod(self, name: str, root: str) -> dict[str, Any]:
        """A pod with a volume of its own name."""
        pod = sleeper(self.namespace, name, inline(self.cache, self.namespace))
        pod["spec"]["nodeName"] = self.node
        pod["spec"]["volumes"][0]["name"] = name
        pod["spec"]["containers"][0]["volumeMounts"] = [{"name": name, "mountPath": root}]
        return pod

    def kernels(self, pod: str, root: str) -> int:
        """How many kernels `pod` sees that were relocated to `root`."""
        script = f"grep -l '\"{root}/' {root}/*/__grp__*.json | wc -l"
        return int(self.cluster.kubectl("-n", self.namespace, "exec", pod, "--", "sh", "-c", script))

    def is_there(self, pod: str) -> bool:
        words = ("-n", self.namespace, "get", "pod", pod, "--ignore-not-found", "-o", "name")
        return bool(self.cluster.kubectl(*words))
