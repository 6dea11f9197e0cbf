"""Where objects live, and how they are read."""

import msgspec
import pytest

from gkm.base.errors import UsageError
from gkm.kube.errors import ProtocolError
from gkm.kube.objects import Key, Pod, key_of
from gkm.kube.resources import LEASES, NODES, PODS


def test_paths() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path(namespace="a") == "/api/v1/namespaces/a/pods"
    assert PODS.path("p", "a", "status") == "/api/v1/namespaces/a/pods/p/status"
    assert NODES.path("n") == "/api/v1/nodes/n"
    assert LEASES.path("l", "a") == "/apis/coordination.k8s.io/v1/namespaces/a/leases/l"
    assert (LEASES.api_version, PODS.api_version) == ("coordination.k8s.io/v1", "v1")


@pytest.mark.parametrize(
    ("resource", "name", "namespace", "says"),
    [
        (NODES, "n", "a", "cluster-scoped"),
        (PODS, "p", "", "give the namespace"),
        (PODS, "../secrets/s", "a", "slash"),
        (PODS, "p", "a/b", "slash"),
    ],
)
def test_paths_that_make_no_sense_are_refused(resource, name: str, namespace: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        resource.path(name, namespace)


def test_a_projection_keeps_what_it_names_and_skips_the_rest() -> None:
    data = msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "a", "managedFields": [{"manager": "kubectl"}]},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
            "status": {"podIP": "10.0.0.1", "phase": "Running"},
        }
    )
    pod = PODS.decode(data)
    assert (key_of(pod), pod.spec.node_name, pod.status.pod_ip) == (Key("a", "p"), "n", "10.0.0.1")
    assert len(msgspec.json.encode(pod)) < len(data)
    with pytest.raises(ProtocolError, match=r"a Pod does not fit Pod.*spec\.nodeName"):
        PODS.decode(b'{"spec": {"nodeName": 7}}')


def test_metadata_only_asks_the_server_for_just_that() -> None:
    slim = PODS.metadata_only()
    assert "as=PartialObjectMetadata;" in slim.accept
    assert "as=PartialObjectMetadataList;" in slim.accept_list
    assert slim.path("p", "a") == PODS.path("p", "a")
    assert PODS.read_as(Pod) == PODS
    assert slim != PODS


def test_an_object_without_a_name_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"metadata\.name"):
        key_of(Pod())
