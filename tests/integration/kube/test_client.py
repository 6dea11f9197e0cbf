"""What the client asks is what the real API server understands."""

import pytest

from gkm.kube.client import Client, Patch
from gkm.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from gkm.kube.objects import ConfigMap, ObjectMeta
from gkm.kube.resources import CONFIG_MAPS, NODES, PODS
from support.devcluster import Cluster


def config_map(name: str, namespace: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data)


def pod(name: str, namespace: str, **metadata: object) -> dict[str, object]:
    """One that is never scheduled."""
    return {
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {
            "schedulerName": "none",
            "automountServiceAccountToken": False,
            "containers": [{"name": "c", "image": "gkm.test/none:1"}],
        },
    }


async def test_the_life_of_an_object(client: Client, namespace: str) -> None:
    made = await client.create(CONFIG_MAPS, config_map("a", namespace, x="1"))
    assert made.metadata.uid
    with pytest.raises(AlreadyExistsError):
        await client.create(CONFIG_MAPS, config_map("a", namespace))
    patched = await client.patch(CONFIG_MAPS, "a", {"data": {"y": "2"}}, namespace)
    assert patched.data == {"x": "1", "y": "2"}
    removed = await client.patch(
        CONFIG_MAPS, "a", [{"op": "remove", "path": "/data/x"}], namespace, strategy=Patch.JSON
    )
    assert removed.data == {"y": "2"}
    stale = {"metadata": {"resourceVersion": made.metadata.resource_version}, "data": {"z": "3"}}
    with pytest.raises(ConflictError):
        await client.patch(CONFIG_MAPS, "a", stale, namespace)
    with pytest.raises(ConflictError):
        await client.delete(CONFIG_MAPS, "a", namespace, uid="another")
    await client.delete(CONFIG_MAPS, "a", namespace, uid=made.metadata.uid)
    with pytest.raises(NotFoundError):
        await client.get(CONFIG_MAPS, "a", namespace)


async def test_apply_owns_what_it_names_and_lets_go_of_the_rest(client: Client, namespace: str) -> None:
    await client.apply(CONFIG_MAPS, config_map("a", namespace, x="1", y="1"))
    await client.patch(CONFIG_MAPS, "a", {"data": {"other": "kept"}}, namespace)
    applied = await client.apply(CONFIG_MAPS, config_map("a", namespace, x="2"))
    assert applied.data == {"x": "2", "other": "kept"}


async def test_a_status_from_an_old_object_is_refused(client: Client, namespace: str) -> None:
    made = await client.create(PODS, pod("a", namespace))
    version = made.metadata.resource_version

    def status(phase: str) -> dict[str, object]:
        return {
            "metadata": {"name": "a", "namespace": namespace, "resourceVersion": version},
            "status": {"phase": phase},
        }

    assert (await client.apply_status(PODS, status("Failed"))).status.phase == "Failed"
    with pytest.raises(ConflictError):
        await client.apply_status(PODS, status("Running"))
    with pytest.raises(ConflictError):
        await client.patch(PODS, "a", status("Running"), namespace, subresource="status")


async def test_a_refusal_names_the_field(client: Client, namespace: str) -> None:
    bad = pod("a", namespace)
    bad["spec"] = {"containers": [{"name": "Not A Name", "image": "i"}]}
    with pytest.raises(InvalidError, match=r"spec\.containers\[0\]\.name") as refused:
        await client.create(PODS, bad)
    assert refused.value.code == 422


async def test_lists_come_in_pages_and_obey_selectors(
    client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gkm.kube.lists.read_list.__kwdefaults__", {"limit": 2})
    for number in range(5):
        obj = config_map(f"object-{number}", namespace)
        labelled = {
            "metadata": {"name": obj.metadata.name, "namespace": namespace, "labels": {"n": str(number)}}
        }
        await client.create(CONFIG_MAPS, labelled)
    names = {o.metadata.name for o in await client.list_all(CONFIG_MAPS, namespace)}
    # Kubernetes puts its CA into every namespace.
    assert names - {"kube-root-ca.crt"} == {f"object-{number}" for number in range(5)}
    some = await client.list_all(CONFIG_MAPS, namespace, labels="n in (1,2,3),n!=2")
    assert {o.metadata.name for o in some} == {"object-1", "object-3"}
    one = await client.list_all(CONFIG_MAPS, namespace, fields="metadata.name=object-4")
    assert [o.metadata.name for o in one] == ["object-4"]


async def test_metadata_only_leaves_the_rest_with_the_server(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAPS, config_map("a", namespace, x="1"))
    slim = CONFIG_MAPS.metadata_only()
    answer = await client.connection.send("GET", slim.path("a", namespace), accept=slim.accept)
    assert b'"data"' not in answer
    assert (await client.get(slim, "a", namespace)).metadata.name == "a"
    assert {o.metadata.name for o in await client.list_all(slim, namespace)} >= {"a"}


async def test_cluster_scoped_kinds(client: Client, control_plane: Cluster) -> None:
    made = await client.create(NODES, {"metadata": {"name": "kube-test-node", "labels": {"x": "1"}}})
    assert (made.metadata.namespace, made.metadata.labels) == ("", {"x": "1"})
    await client.delete(NODES, "kube-test-node")
