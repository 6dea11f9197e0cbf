"""The owner of a namespace, who may do anything in it, gets nothing of what nodes hold for others.

Every forgery is tried with a service account's own token, against nodes at work: what the API server does not
refuse, nodes do not obey.
"""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.layout import node_names
from support.devcluster import Cluster
from support.installed import apply, eventually, token_user
from support.leaks import held
from support.outages import agent_on
from support.warm_pods import (
    cache,
    claim,
    digest_of,
    entries,
    inline,
    is_running,
    new_namespace,
    push,
    sleeper,
    staged_on,
    status,
)

pytestmark = [pytest.mark.root, pytest.mark.triton, pytest.mark.timeout(1800)]


@dataclass(frozen=True)
class Owner:
    """A service account with every right in its namespace, and none elsewhere."""

    cluster: Cluster
    namespace: str
    config: Path

    def run(self, *words: str, stdin: Any = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the owner, in the owner's namespace."""
        text = None if stdin is None else yaml.safe_dump(stdin)
        return self.cluster.run_kubectl("-n", self.namespace, *words, stdin=text, kubeconfig=self.config)

    def patch(self, kind: str, name: str, change: Any, *words: str) -> subprocess.CompletedProcess[str]:
        """Merge `change` into an object."""
        return self.run("patch", kind, name, "--type=merge", "-p", json.dumps(change), *words)

    def create(self, body: Any) -> subprocess.CompletedProcess[str]:
        """Make an object."""
        return self.run("create", "-f", "-", stdin=body)


@pytest.fixture
def owner(gkm: Any) -> Iterator[Owner]:
    cluster = gkm.cluster
    namespace = new_namespace(cluster)
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "all"}
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    meta = {"name": "all", "namespace": namespace}
    version = "rbac.authorization.k8s.io/v1"
    apply(
        cluster,
        {"apiVersion": version, "kind": "Role", "metadata": meta, "rules": everything},
        {
            "apiVersion": version,
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": role,
            "subjects": [subject],
        },
    )
    yield Owner(cluster, namespace, token_user(cluster, "default", namespace=namespace))
    cluster.kubectl("delete", "namespace", namespace, "--wait=false")


def test_forged_status_annotations_and_reports_change_nothing_that_nodes_do(
    gkm: Any, owner: Owner, tmp_path: Path
) -> None:
    cluster, namespace = gkm.cluster, owner.namespace
    forged = push(cluster, tmp_path / "forged", "kernels/forged:1", "--kernels", "2")
    digest = digest_of(cluster, forged)
    assert owner.create(cache("GKMCache", "kernels", namespace, image=gkm.image)).returncode == 0
    eventually(lambda: status(cluster, namespace).get("phase") == "Extracted", "the cache is staged", 120)
    real = status(cluster, namespace)
    trees = {name: held(cluster, name).trees for name in node_names(cluster.spec.nodes)}

    for change in ({"resolvedDigest": digest}, {"candidateDigest": digest}, {"phase": "Running"}):
        _refused(owner.patch("gkmc", "kernels", {"status": change}, "--subresource=status"))
    uid = cluster.kubectl("-n", namespace, "get", "gkmc", "kernels", "-o", "jsonpath={.metadata.uid}")
    _refused(owner.patch("gkmg", uid, {"spec": {"digests": [digest]}}))
    report = {
        "apiVersion": "gkm.io/v1alpha1",
        "kind": "GKMCacheNode",
        "metadata": {"name": "node-1", "namespace": namespace},
    }
    _refused(owner.patch("gkmcn", "node-1", {"status": {"nodeName": "node-2"}}, "--subresource=status"))
    _refused(owner.create(report | {"metadata": {"name": "node-9", "namespace": namespace}}))

    # A report may be deleted, as everything in a namespace that goes must be; then it is written again.
    _done(owner.run("delete", "gkmcn", "--all"))
    for name in node_names(cluster.spec.nodes):
        eventually(lambda name=name: staged_on(cluster, namespace, name), f"{name} reports again")
    # These the owner may write; nobody reads them.
    words = {"gkm.io/resolvedDigest": digest, "gkm.io/mutationSig": "mine", "gkm.io/image": forged}
    _done(
        owner.patch(
            "gkmc", "kernels", {"metadata": {"annotations": words, "labels": {"gkm.io/cache-uid": uid}}}
        )
    )
    _done(
        owner.patch(
            "pvc", "kernels", {"metadata": {"annotations": words, "labels": {"gkm.io/cache-uid": "x"}}}
        )
    )
    for name, volume in {"in": inline("kernels", namespace), "pvc": claim("kernels")}.items():
        pod = sleeper(namespace, name, volume)
        pod["metadata"]["annotations"] = words
        _done(owner.create(pod))
        eventually(lambda name=name: is_running(cluster, namespace, name), f"{name} runs", 120)
        assert len(entries(cluster, namespace, name)) == 24
    assert status(cluster, namespace)["resolvedDigest"] == real["resolvedDigest"]
    for name, before in trees.items():
        after = held(cluster, name).trees
        assert digest not in after
        assert after <= before | {real["resolvedDigest"]}


def test_an_agent_writes_no_report_of_another_node(gkm: Any, namespace: str) -> None:
    cluster = gkm.cluster
    pod = agent_on(cluster, "node-1")
    agent = token_user(cluster, "gkm-agent", "--bound-object-kind=Pod", f"--bound-object-name={pod}")
    change = json.dumps({"metadata": {"labels": {"forged": "yes"}}})
    words = ("-n", namespace, "patch", "gkmcn", "--type=merge", "-p", change)

    def reports() -> set[str]:
        return set(cluster.kubectl("-n", namespace, "get", "gkmcn", "-o", "name").split())

    eventually(lambda: len(reports()) == 2, "both nodes report", 120)
    _refused(cluster.run_kubectl(*words, "node-2", kubeconfig=agent))
    _done(cluster.run_kubectl(*words, "node-1", kubeconfig=agent))


def test_a_cache_of_others_is_as_good_as_none(gkm: Any, namespace: str, owner: Owner) -> None:
    cluster, victim = gkm.cluster, namespace
    shared = f"shared-{victim}"
    apply(cluster, cache("ClusterGKMCache", shared, image=gkm.image, workloadNamespaces=[victim]))
    try:
        _done_waiting(cluster, victim)
        stolen = inline("kernels", victim)
        stolen["csi"]["volumeAttributes"] |= {
            "csi.storage.k8s.io/pod.namespace": victim,
            "csi.storage.k8s.io/ephemeral": "false",
        }
        volumes = {
            "theirs": inline("kernels", victim),
            "claimed": stolen,
            "unlisted": inline(shared),
            "missing": inline("missing", victim),
            "nowhere": inline("missing"),
        }
        for name, volume in volumes.items():
            _done(owner.create(sleeper(owner.namespace, name, volume)))
        volume = cluster.kubectl("-n", victim, "get", "pvc", "kernels", "-o", "jsonpath={.spec.volumeName}")
        uid = cluster.kubectl("-n", victim, "get", "gkmc", "kernels", "-o", "jsonpath={.metadata.uid}")
        _done(owner.create(_claim(owner.namespace, volume, uid)))
        _done(owner.create(sleeper(owner.namespace, "bound", claim("kernels"))))
        _refused(owner.create(_volume(owner.namespace, volume)))

        told = {}
        for name in volumes:
            eventually(lambda name=name: is_running(cluster, owner.namespace, name), f"{name} runs", 120)
            assert cluster.kubectl("-n", owner.namespace, "exec", name, "--", "ls", "-A", "/cache") == "", (
                name
            )
            ours = _ours(cluster, owner.namespace, name)
            assert len(ours) == 1, (name, ours)
            told[name] = ours[0]
        # The same words for what is not theirs and what is not there: nobody learns what others have.
        assert told["theirs"] == told["claimed"] == told["missing"]
        assert told["unlisted"] == told["nowhere"]
        assert not is_running(cluster, owner.namespace, "bound")
        phase = "jsonpath={.status.phase}"
        assert cluster.kubectl("-n", owner.namespace, "get", "pvc", "kernels", "-o", phase) == "Pending"
        assert cluster.kubectl("-n", victim, "get", "pvc", "kernels", "-o", phase) == "Bound"
        assert cluster.kubectl("get", "pv", volume, "-o", "jsonpath={.spec.claimRef.namespace}") == victim
    finally:
        cluster.kubectl("delete", "clustergkmcache", shared, "--wait=false")


def test_an_owner_who_removes_the_finalizer_leaves_nothing_behind(gkm: Any, owner: Owner) -> None:
    cluster, namespace = gkm.cluster, owner.namespace
    _done(owner.create(cache("GKMCache", "kernels", namespace, image=gkm.image)))
    eventually(lambda: status(cluster, namespace).get("phase") == "Extracted", "the cache is staged", 120)
    uid = cluster.kubectl("-n", namespace, "get", "gkmc", "kernels", "-o", "jsonpath={.metadata.uid}")
    _done(owner.create(sleeper(namespace, "user", inline("kernels", namespace))))
    eventually(lambda: is_running(cluster, namespace, "user"), "the pod runs", 120)
    _done(owner.run("delete", "gkmc", "kernels", "--wait=false"))
    owner.patch("gkmc", "kernels", {"metadata": {"finalizers": None}})
    for kind in ("pv", "gkmg"):
        eventually(
            lambda kind=kind: uid not in cluster.kubectl("get", kind, "-o", "json"), f"no {kind} is left"
        )
    assert len(entries(cluster, namespace, "user")) == 24


def _done_waiting(cluster: Cluster, namespace: str) -> None:
    eventually(lambda: status(cluster, namespace).get("phase") == "Extracted", "the cache is staged", 120)


def _done(got: subprocess.CompletedProcess[str]) -> None:
    assert got.returncode == 0, got.stderr


def _refused(got: subprocess.CompletedProcess[str]) -> None:
    assert got.returncode != 0, got.stdout
    assert "orbidden" in got.stderr or "denied" in got.stderr, got.stderr


def _ours(cluster: Cluster, namespace: str, pod: str) -> list[tuple[str, str]]:
    """Reason and text of GKM's Events about `pod`, without the name of the cache."""
    where = ("-n", namespace, "get", "events", "--field-selector", f"involvedObject.name={pod}", "-o", "json")
    found = json.loads(cluster.kubectl(*where))["items"]
    return [
        (event["reason"], event["message"].partition(": ")[2])
        for event in found
        if event.get("reportingComponent", "").startswith("gkm.io/")
    ]


def _claim(namespace: str, volume: str, uid: str) -> Any:
    """A claim that asks for another namespace's volume, in GKM's own words."""
    labels = {"app.kubernetes.io/managed-by": "gkm", "gkm.io/cache-uid": uid}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "kernels", "namespace": namespace, "labels": labels},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
            "volumeName": volume,
        },
    }


def _volume(namespace: str, handle: str) -> Any:
    """A volume with another one's handle, for a claim of `namespace`."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"forged-{namespace}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "claimRef": {"namespace": namespace, "name": "kernels"},
            "csi": {"driver": "csi.gkm.io", "volumeHandle": handle},
        },
    }
