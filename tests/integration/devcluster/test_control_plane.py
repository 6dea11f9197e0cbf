"""The control plane is a real one: it authenticates, authorises, admits, audits, and survives its parts."""

import json

from devcluster.audit import writes_by_user
from support.devcluster import Cluster


def test_the_api_server_is_the_version_that_is_pinned(control_plane: Cluster) -> None:
    version = json.loads(control_plane.kubectl("version", "-o", "json"))
    assert version["serverVersion"]["gitVersion"] == version["clientVersion"]["gitVersion"]
    assert (version["serverVersion"]["major"], version["serverVersion"]["minor"]) == ("1", "36")


def test_a_user_may_only_what_rbac_gives(control_plane: Cluster, namespace: str) -> None:
    alice = control_plane.user("alice", ["dev"])
    create = ["-n", namespace, "create", "configmap", "hers"]
    refused = control_plane.run_kubectl(*create, kubeconfig=alice)
    assert refused.returncode != 0
    assert 'User "alice" cannot create resource "configmaps"' in refused.stderr

    role = ["-n", namespace, "create", "role", "writer", "--verb=create", "--resource=configmaps"]
    control_plane.kubectl(*role)
    control_plane.kubectl("-n", namespace, "create", "rolebinding", "writer", "--role=writer", "--group=dev")
    assert control_plane.run_kubectl(*create, kubeconfig=alice).returncode == 0


def test_writes_are_counted_per_user_in_the_audit_log(control_plane: Cluster, namespace: str) -> None:
    bob = control_plane.user("bob")
    mark = control_plane.audit_mark()
    control_plane.kubectl("-n", namespace, "create", "configmap", "one")
    control_plane.run_kubectl("-n", namespace, "create", "configmap", "two", kubeconfig=bob)
    events = control_plane.audit(mark)
    counts = writes_by_user(events)
    assert counts["kubernetes-admin"] == 1
    assert counts["bob"] == 1
    (refused,) = [e for e in events if e.user.username == "bob" and e.write]
    assert refused.response_status.code == 403
    assert refused.object_ref is not None
    assert (refused.object_ref.resource, refused.object_ref.namespace) == ("configmaps", namespace)


def test_a_node_may_not_touch_another_node(control_plane: Cluster) -> None:
    node = control_plane.user("system:node:mine", ["system:nodes"])
    manifest = json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "theirs"}})
    got = control_plane.run_kubectl("create", "-f", "-", stdin=manifest, kubeconfig=node)
    assert got.returncode != 0
    assert "is not allowed to modify node" in got.stderr


def test_controllers_run(control_plane: Cluster, namespace: str) -> None:
    control_plane.kubectl("-n", namespace, "create", "deployment", "some", "--image=gkm.test/none:1")
    wait = ["wait", "--for=create", "--timeout=30s", "pod", "-l", "app=some"]
    control_plane.kubectl("-n", namespace, *wait)


def test_objects_survive_the_death_of_the_api_server(control_plane: Cluster, namespace: str) -> None:
    control_plane.kubectl("-n", namespace, "create", "configmap", "kept", "--from-literal=a=b")
    before = control_plane.identity("kube-apiserver")
    control_plane.kill("kube-apiserver")
    assert control_plane.run_kubectl("get", "--raw", "/version").returncode != 0
    control_plane.start("kube-apiserver", wait=True)
    assert control_plane.identity("kube-apiserver") != before
    kept = control_plane.kubectl("-n", namespace, "get", "configmap", "kept", "-o", "jsonpath={.data.a}")
    assert kept == "b"


def test_history_is_gone_after_etcd_was_compacted(control_plane: Cluster, namespace: str) -> None:
    for name in ("one", "two"):
        control_plane.kubectl("-n", namespace, "create", "configmap", name)
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    first = control_plane.api.json("GET", f"{path}?limit=1")
    old = first["metadata"]["resourceVersion"]
    control_plane.kubectl("-n", namespace, "create", "configmap", "three")
    assert control_plane.compact() > int(old)
    control_plane.restart("kube-apiserver")
    exact = f"resourceVersion={old}&resourceVersionMatch=Exact"
    got = control_plane.run_kubectl("get", "--raw", f"{path}?{exact}")
    assert got.returncode != 0
    assert "too old" in got.stderr or "compacted" in got.stderr
    watch = control_plane.api.text(
        "GET", f"{path}?watch=1&resourceVersion={old}&timeoutSeconds=5", timeout=30
    )
    event = json.loads(watch.splitlines()[0])
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
