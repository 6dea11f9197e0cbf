"""Who may write what, asked of a real API server with real tokens."""

import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.devcluster import Cluster
from support.installed import SYSTEM, apply, eventually, token_user

_DIGEST = "sha256:" + "a" * 64


@pytest.fixture
def tenant(installed: Cluster) -> Iterator[tuple[str, Path]]:
    """A namespace with a cache, and its owner: any verb on anything in it."""
    name = f"tenant-{uuid.uuid4().hex[:8]}"
    installed.create_namespace(name)
    installed.kubectl("-n", name, "create", "role", "all", "--verb=*", "--resource=*.*")
    role = json.loads(installed.kubectl("-n", name, "get", "role", "all", "-o", "json"))
    role["rules"] = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    installed.kubectl("replace", "-f", "-", stdin=json.dumps(role))
    installed.kubectl("-n", name, "create", "rolebinding", "all", "--role=all", f"--user={name}")
    owner = installed.user(name)
    cache = _object("GKMCache", "cache", name, spec={"image": "registry.test/kernels:1"})
    assert _try(installed, owner, "create", cache).returncode == 0
    yield name, owner
    installed.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


@pytest.fixture
def nodes(installed: Cluster) -> Iterator[tuple[str, str]]:
    """Two Node objects, without machines."""
    names = tuple(f"node-{uuid.uuid4().hex[:8]}" for _ in range(2))
    for name in names:
        apply(installed, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    yield names[0], names[1]
    installed.kubectl("delete", "node", *names, "--ignore-not-found")


@pytest.fixture
def agent(installed: Cluster, nodes: tuple[str, str]) -> Iterator[Path]:
    """The agent of the first node: a token as kubelet gets it, for a pod on that node."""
    pod = _object("Pod", f"agent-{uuid.uuid4().hex[:8]}", SYSTEM, version="v1")
    pod["spec"] = {
        "nodeName": nodes[0],
        "serviceAccountName": "gkm-agent",
        "containers": [{"name": "agent", "image": "none.test/none"}],
    }
    installed.kubectl("create", "-f", "-", stdin=yaml.safe_dump(pod))
    name = pod["metadata"]["name"]
    yield token_user(installed, "gkm-agent", "--bound-object-kind=Pod", f"--bound-object-name={name}")
    installed.kubectl("-n", SYSTEM, "delete", "pod", name, "--force", "--ignore-not-found")


def test_the_server_finds_no_fault_in_the_expressions(installed: Cluster) -> None:
    def judged() -> list[dict[str, Any]] | None:
        found = json.loads(installed.kubectl("get", "validatingadmissionpolicies", "-o", "json"))["items"]
        ours = [policy for policy in found if policy["metadata"]["name"].startswith("gkm-")]
        return ours if all("typeChecking" in policy.get("status", {}) for policy in ours) else None

    policies = eventually(judged, "the policies are judged")
    assert len(policies) == 2
    assert [policy["status"]["typeChecking"] for policy in policies] == [{}, {}]


def test_owner_of_a_namespace_forges_neither_status_nor_reports(
    installed: Cluster, tenant: tuple[str, Path], nodes: tuple[str, str]
) -> None:
    name, owner = tenant
    status = json.dumps({"status": {"resolvedDigest": _DIGEST, "pvcOwner": "Unknown", "counts": _counts()}})
    got = _run(
        installed,
        owner,
        "-n",
        name,
        "patch",
        "gkmc",
        "cache",
        "--subresource=status",
        "--type=merge",
        "-p",
        status,
    )
    _refused(got, "only GKM's operator writes gkmcaches/status")
    _refused(
        _try(installed, owner, "create", _report(nodes[0], name)), "only GKM's agents write node reports"
    )
    labelled = _run(installed, owner, "-n", name, "label", "gkmc", "cache", "mine=yes")
    assert labelled.returncode == 0, labelled.stderr


def test_not_even_an_administrator_writes_grants_by_mistake(installed: Cluster) -> None:
    grant = _grant()
    _refused(_try(installed, installed.kubeconfig, "create", grant), "only GKM's operator writes gkmgrants")
    operator = token_user(installed, "gkm-operator")
    assert _try(installed, operator, "create", grant).returncode == 0
    name = grant["metadata"]["name"]
    _refused(
        _run(
            installed,
            installed.kubeconfig,
            "patch",
            "gkmg",
            name,
            "--type=merge",
            "-p",
            '{"spec":{"waitSeconds":1}}',
        ),
        "only GKM's operator writes gkmgrants",
    )
    _refused(_run(installed, installed.kubeconfig, "delete", "gkmg", name), "only GKM's operator")
    _refused(_run(installed, installed.kubeconfig, "delete", "gkmg", "--all"), "only GKM's operator")
    deleted = _run(installed, operator, "delete", "gkmg", name)
    assert deleted.returncode == 0, deleted.stderr


def test_the_operator_writes_status_and_no_report(
    installed: Cluster, tenant: tuple[str, Path], nodes: tuple[str, str]
) -> None:
    name, _ = tenant
    operator = token_user(installed, "gkm-operator")
    status = _object("GKMCache", "cache", name, status={"pvcOwner": "Unknown", "counts": _counts()})
    got = _try(installed, operator, "apply", "--server-side", "--subresource=status", status)
    assert got.returncode == 0, got.stderr
    assert _try(installed, operator, "create", _report(nodes[0], name)).returncode != 0


@pytest.mark.parametrize("cluster_scoped", [False, True], ids=["namespaced", "cluster"])
def test_an_agent_writes_the_report_of_its_own_node_alone(
    installed: Cluster, tenant: tuple[str, Path], nodes: tuple[str, str], agent: Path, cluster_scoped: bool
) -> None:
    own, other = (_report(node, "" if cluster_scoped else tenant[0]) for node in nodes)
    # As the agent does: server-side apply, of the object and then of its status.
    apply_words = ("apply", "--server-side", "--field-manager=gkm-agent")
    got = _try(installed, agent, *apply_words, own)
    assert got.returncode == 0, got.stderr
    own["status"] = {"nodeName": nodes[0], "counts": _counts()}
    got = _try(installed, agent, *apply_words, "--subresource=status", own)
    assert got.returncode == 0, got.stderr

    _refused(_try(installed, agent, *apply_words, other), f"only the report of its own node ({nodes[0]})")
    unbound = token_user(installed, "gkm-agent")
    _refused(_try(installed, unbound, *apply_words, own), "this token is bound to none")

    # Had the other node's agent written one, this agent could neither change nor delete it.
    bound = token_user(installed, "gkm-agent", "--bound-object-kind=Node", f"--bound-object-name={nodes[1]}")
    assert _try(installed, bound, *apply_words, other).returncode == 0
    other["status"] = {"nodeName": nodes[1], "counts": _counts()}
    _refused(_try(installed, agent, *apply_words, "--subresource=status", other), "own node")
    _refused(_try(installed, agent, "delete", other), "own node")
    assert _try(installed, agent, "delete", own).returncode == 0


def test_reports_go_with_their_node_and_with_their_namespace(
    installed: Cluster, tenant: tuple[str, Path], nodes: tuple[str, str], agent: Path
) -> None:
    name, _ = tenant
    uid = installed.kubectl("get", "node", nodes[0], "-o", "jsonpath={.metadata.uid}")
    owners = [{"apiVersion": "v1", "kind": "Node", "name": nodes[0], "uid": uid}]
    for namespace in ("", name):
        report = _report(nodes[0], namespace)
        report["metadata"]["ownerReferences"] = owners
        assert _try(installed, agent, "create", report).returncode == 0
    bound = token_user(installed, "gkm-agent", "--bound-object-kind=Node", f"--bound-object-name={nodes[1]}")
    assert _try(installed, bound, "create", _report(nodes[1], name)).returncode == 0

    installed.kubectl("delete", "node", nodes[0])
    eventually(
        lambda: nodes[0] not in installed.kubectl("get", "cgkmcn,gkmcn", "-A", "-o", "name"),
        "they are collected",
    )
    installed.kubectl("delete", "namespace", name, "--timeout=60s")
    assert nodes[1] not in installed.kubectl("get", "gkmcn", "-A", "-o", "name")


@pytest.mark.parametrize(
    ("account", "question", "answer"),
    [
        ("gkm-agent", "get secrets -n default", "no"),
        ("gkm-agent", f"get secrets -n {SYSTEM}", "yes"),
        ("gkm-agent", f"list secrets -n {SYSTEM}", "no"),
        ("gkm-agent", "create gkmgrants.gkm.io", "no"),
        ("gkm-agent", "patch gkmcaches.gkm.io -n default", "no"),
        ("gkm-agent", "create pods -n default", "no"),
        ("gkm-agent", "create persistentvolumes", "no"),
        ("gkm-agent", "patch nodes", "no"),
        ("gkm-operator", "get secrets -n default", "yes"),
        ("gkm-operator", "list secrets -n default", "no"),
        ("gkm-operator", "create secrets -n default", "no"),
        ("gkm-operator", "create pods -n default", "no"),
        ("gkm-operator", "create gkmcaches.gkm.io -n default", "no"),
    ],
)
def test_rights_end_where_the_work_does(installed: Cluster, account: str, question: str, answer: str) -> None:
    who = f"system:serviceaccount:{SYSTEM}:{account}"
    got = installed.run_kubectl("auth", "can-i", *question.split(), "--as", who)
    assert got.stdout.strip() == answer, got.stderr


def test_editors_of_a_namespace_own_its_caches_and_viewers_see_them(
    installed: Cluster, namespace: str
) -> None:
    for role in ("edit", "view"):
        installed.kubectl(
            "-n",
            namespace,
            "create",
            "rolebinding",
            role,
            f"--clusterrole={role}",
            f"--user={role}-{namespace}",
        )

    def may(role: str, *question: str) -> str:
        user = f"{role}-{namespace}"
        return installed.run_kubectl("auth", "can-i", *question, "-n", namespace, "--as", user).stdout.strip()

    eventually(lambda: may("edit", "create", "gkmcaches.gkm.io") == "yes", "editors may create caches")
    eventually(lambda: may("view", "list", "gkmcachenodes.gkm.io") == "yes", "viewers see reports")
    assert may("view", "create", "gkmcaches.gkm.io") == "no"
    assert may("edit", "patch", "gkmcaches.gkm.io", "--subresource=status") == "no"


def _object(
    kind: str, name: str, namespace: str = "", version: str = "gkm.io/v1alpha1", **rest: Any
) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def _report(node: str, namespace: str) -> dict[str, Any]:
    return _object("GKMCacheNode" if namespace else "ClusterGKMCacheNode", node, namespace)


def _counts() -> dict[str, int]:
    names = ("node", "nodeInUse", "nodeNotInUse", "nodeError", "podRunning", "podDeleting", "podOutdated")
    return {f"{name}Cnt": 0 for name in names}


def _grant() -> dict[str, Any]:
    uid = str(uuid.uuid4())
    cache = {"kind": "ClusterGKMCache", "name": "c", "uid": uid}
    spec = {
        "cache": cache,
        "digests": [],
        "allNamespaces": True,
        "staging": "Eager",
        "whenUnavailable": "StartCold",
        "waitSeconds": 30,
    }
    return _object("GKMGrant", uid, spec=spec)


def _run(
    cluster: Cluster, who: Path, *words: str, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    return cluster.run_kubectl(*words, kubeconfig=who, stdin=stdin)


def _try(cluster: Cluster, who: Path, *words_and_object: Any) -> subprocess.CompletedProcess[str]:
    *words, obj = words_and_object
    return _run(cluster, who, *words, "-f", "-", stdin=yaml.safe_dump(obj))


def _refused(got: subprocess.CompletedProcess[str], why: str) -> None:
    assert got.returncode != 0, got.stdout
    assert why in got.stderr
