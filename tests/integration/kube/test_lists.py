"""Lists from the real API server, in whose JSON items are found while it arrives."""

import asyncio
import json

import pytest

from gkm.kube.client import Client
from gkm.kube.errors import NotFoundError
from gkm.kube.lists import Part, read_list
from gkm.kube.objects import ConfigMap, ObjectMeta, PartialObject
from gkm.kube.resources import CONFIG_MAPS, Resource
from support.devcluster import Cluster

OBJECTS = 40
GADGETS = Resource(PartialObject, "kube-test.gkm.io", "v1", "Gadget", "gadgets")
GADGET_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.kube-test.gkm.io"},
    "spec": {
        "group": "kube-test.gkm.io",
        "names": {"kind": "Gadget", "listKind": "GadgetList", "plural": "gadgets", "singular": "gadget"},
        "scope": "Namespaced",
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
AT_HAND = {"resourceVersion": "0", "resourceVersionMatch": "NotOlderThan"}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few objects' worth."""
    monkeypatch.setattr("gkm.kube.splitting.ListSplitter.__init__.__defaults__", (2000,))


async def parts_of(client: Client, resource: Resource, namespace: str, query: dict, limit: int) -> list[Part]:
    return [part async for part in read_list(client.connection, resource, namespace, query, limit=limit)]


def check(parts: list[Part], resource: Resource) -> None:
    """All objects, once, and most of them before the end."""
    found = [resource.decode(item).metadata.name for part in parts for item in part.items]
    assert sorted(name for name in found if name.startswith("object-")) == [
        f"object-{number:02}" for number in range(OBJECTS)
    ]
    assert len(found) == len(set(found))
    assert sum(len(part.items) for part in parts if not part.resource_version) > OBJECTS / 2
    assert parts[-1].resource_version


async def served(client: Client, resource: Resource, namespace: str) -> None:
    """Return once the API server knows the kind; it is established a moment earlier."""
    async with asyncio.timeout(60):
        while True:
            try:
                await client.list_all(resource, namespace)
            except NotFoundError:
                await asyncio.sleep(0.1)
            else:
                return


async def test_a_built_in_kind(client: Client, namespace: str) -> None:
    for number in range(OBJECTS):
        await client.create(
            CONFIG_MAPS,
            ConfigMap(
                metadata=ObjectMeta(name=f"object-{number:02}", namespace=namespace),
                data={"tricky": '},{"metadata":{"name":"no object"}}]}', "long": "x" * 300},
            ),
        )
    check(await parts_of(client, CONFIG_MAPS, namespace, AT_HAND, 0), CONFIG_MAPS)
    # The watch cache sends everything, whatever the limit.
    whole = await parts_of(client, CONFIG_MAPS, namespace, AT_HAND, 7)
    check(whole, CONFIG_MAPS)
    assert sum(bool(part.resource_version) for part in whole) == 1
    paged = await parts_of(client, CONFIG_MAPS, namespace, {}, 7)
    assert sum(len(part.items) for part in paged) == sum(len(part.items) for part in whole)
    assert sum(bool(part.resource_version) for part in paged) == OBJECTS // 7 + 1
    assert len({part.resource_version for part in paged if part.resource_version}) == 1
    slim = CONFIG_MAPS.metadata_only()
    check(await parts_of(client, slim, namespace, AT_HAND, 0), slim)


async def test_a_custom_kind_whose_version_stands_behind_its_items(
    client: Client, control_plane: Cluster, namespace: str
) -> None:
    control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(GADGET_CRD))
    try:
        control_plane.kubectl("wait", "--for=condition=Established", "crd/gadgets.kube-test.gkm.io")
        await served(client, GADGETS, namespace)
        for number in range(OBJECTS):
            metadata = {"name": f"object-{number:02}", "namespace": namespace}
            await client.create(GADGETS, {"metadata": metadata})
        check(await parts_of(client, GADGETS, namespace, AT_HAND, 0), GADGETS)
    finally:
        control_plane.kubectl("delete", "crd", "gadgets.kube-test.gkm.io")
