"""A reflector against the real API server: whatever happened, the store equals the truth in the end."""

import asyncio
import json
import random

import pytest

from gkm.kube.client import Client
from gkm.kube.objects import ConfigMap, Key, ObjectMeta, PartialObject
from gkm.kube.progress import Timing
from gkm.kube.reflector import Reflector
from gkm.kube.resources import CONFIG_MAPS, Resource
from support.cutting_proxy import CuttingProxy
from support.devcluster import Cluster
from support.waiting import until

EITHER = pytest.mark.parametrize("streaming", [False, True], ids=["list", "stream"])


def config_map(name: str, namespace: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data)


def versions(objects: list[ConfigMap]) -> dict[Key, tuple[str, str]]:
    return {
        Key(o.metadata.namespace, o.metadata.name): (o.metadata.uid, o.metadata.resource_version)
        for o in objects
    }


async def in_step(client: Client, reflector: Reflector[ConfigMap], namespace: str) -> None:
    truth = versions(await client.list_all(CONFIG_MAPS, namespace))
    await until(lambda: versions(reflector.store.objects()) == truth, "store equals truth", 60)


async def edit(client: Client, namespace: str, rounds: int, seed: int = 1) -> None:
    dice = random.Random(seed)
    there: set[str] = set()
    for number in range(rounds):
        name = f"object-{dice.randrange(10)}"
        if name not in there:
            await client.create(CONFIG_MAPS, config_map(name, namespace, n=str(number)))
            there.add(name)
        elif dice.random() < 0.3:
            await client.delete(CONFIG_MAPS, name, namespace)
            there.discard(name)
        else:
            await client.patch(CONFIG_MAPS, name, {"data": {"n": str(number)}}, namespace)


async def test_one_stream_lists_and_watches(client: Client, namespace: str, reflecting) -> None:
    await edit(client, namespace, 10)
    async with reflecting(client, CONFIG_MAPS, namespace, Timing(), streaming=True) as (reflector, tally):
        await until(reflector.synced.is_set)
        await in_step(client, reflector, namespace)
        await client.create(CONFIG_MAPS, config_map("later", namespace))
        await in_step(client, reflector, namespace)
    assert tally.modes == {"STREAM": 1}
    assert not tally.failures


async def test_one_request_lists_and_one_watches(client: Client, namespace: str, reflecting) -> None:
    await edit(client, namespace, 10)
    async with reflecting(client, CONFIG_MAPS, namespace, Timing()) as (reflector, tally):
        await until(reflector.synced.is_set)
        await in_step(client, reflector, namespace)
        await client.create(CONFIG_MAPS, config_map("later", namespace))
        await in_step(client, reflector, namespace)
    assert tally.modes == {"LIST": 1, "WATCH": 1}
    assert not tally.failures


@EITHER
async def test_resumes_watches_without_listing_again(
    client: Client, namespace: str, reflecting, streaming: bool
) -> None:
    async with reflecting(client, CONFIG_MAPS, namespace, streaming=streaming) as (reflector, tally):
        await until(lambda: tally.modes["WATCH"] >= 3)
        await edit(client, namespace, 30)
        await in_step(client, reflector, namespace)
    assert tally.modes["STREAM"] + tally.modes["LIST"] == 1
    assert tally.modes["STREAM"] == streaming
    assert not tally.failures


async def test_the_api_server_is_killed_and_comes_back(
    client: Client, control_plane: Cluster, namespace: str, reflecting
) -> None:
    await edit(client, namespace, 10)
    async with reflecting(client, CONFIG_MAPS, namespace) as (reflector, tally):
        await reflector.synced.wait()
        control_plane.kill("kube-apiserver")
        await until(lambda: reflector.problem.startswith("Unreachable"))
        await asyncio.to_thread(control_plane.start, "kube-apiserver", wait=True)
        await until(lambda: reflector.problem == "", "in step again", 60)
        await client.create(CONFIG_MAPS, config_map("after", namespace))
        await in_step(client, reflector, namespace)
    assert tally.failures["Unreachable"] >= 1


@EITHER
async def test_history_is_compacted_while_the_watch_is_cut_off(
    client: Client, control_plane: Cluster, namespace: str, reflecting, connecting, streaming: bool
) -> None:
    await edit(client, namespace, 10)
    host, port = control_plane.server.removeprefix("https://").split(":")
    async with (
        CuttingProxy(host, int(port)).serve() as proxy,
        connecting(server=f"https://127.0.0.1:{proxy.port}") as through,
        reflecting(through, CONFIG_MAPS, namespace, streaming=streaming) as (reflector, tally),
    ):
        await reflector.synced.wait()
        gone = reflector.store.keys() - {Key(namespace, "kube-root-ca.crt")}
        heard: list[Key] = []
        reflector.subscribe(lambda change: heard.append(change.key) if change.new is None else None)
        proxy.open = False
        proxy.cut()
        for key in gone:
            await client.delete(CONFIG_MAPS, key.name, namespace)
        await edit(client, namespace, 20, seed=2)
        control_plane.compact()
        # The API server's own cache holds history too, until it is restarted.
        await asyncio.to_thread(control_plane.restart, "kube-apiserver")
        proxy.open = True
        await in_step(client, reflector, namespace)
        assert tally.failures["Expired"] >= 1, tally
        assert set(heard) <= gone
        assert {key for key in gone if reflector.store.get(key) is None} <= set(heard)


async def test_rights_come_go_and_come_back(
    client: Client, control_plane: Cluster, namespace: str, reflecting, connecting
) -> None:
    alice = control_plane.user("alice-reflects")
    role = ["--role=reads", "-n", namespace]
    control_plane.kubectl(
        "create", "role", "reads", "--verb=get,list,watch", "--resource=configmaps", "-n", namespace
    )
    async with (
        connecting(alice) as own,
        reflecting(own, CONFIG_MAPS, namespace) as (reflector, tally),
    ):
        await until(lambda: reflector.problem.startswith("Forbidden"))
        assert reflector.refused
        assert not reflector.synced.is_set()
        await edit(client, namespace, 10)
        for _ in range(2):
            control_plane.kubectl("create", "rolebinding", "reads", "--user=alice-reflects", *role)
            await in_step(client, reflector, namespace)
            await until(lambda: not reflector.refused)
            control_plane.kubectl("delete", "rolebinding", "reads", "-n", namespace)
            await until(lambda: reflector.refused, "rights are noticed to be gone", 30)
            assert len(reflector.store) > 0, "what was known is kept"
    assert tally.failures["Forbidden"] >= 2


WIDGETS = Resource(PartialObject, "kube-test.gkm.io", "v1", "Widget", "widgets")
WIDGET_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.kube-test.gkm.io"},
    "spec": {
        "group": "kube-test.gkm.io",
        "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
        "scope": "Namespaced",
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}


async def test_a_kind_that_is_installed_late(
    client: Client, control_plane: Cluster, namespace: str, reflecting
) -> None:
    async with reflecting(client, WIDGETS, namespace) as (reflector, _):
        await until(lambda: reflector.problem.startswith("NotFound"))
        control_plane.kubectl("apply", "-f", "-", stdin=json.dumps(WIDGET_CRD))
        try:
            await until(reflector.synced.is_set, "synced once the kind exists", 60)
            await client.create(WIDGETS, {"metadata": {"name": "w", "namespace": namespace}})
            await until(lambda: reflector.store.get(Key(namespace, "w")))
            await until(lambda: reflector.problem == "")
        finally:
            control_plane.kubectl("delete", "crd", "widgets.kube-test.gkm.io")


@pytest.mark.parametrize("seed", range(3))
async def test_connections_are_cut_in_the_middle_of_anything(
    client: Client, control_plane: Cluster, namespace: str, reflecting, connecting, seed: int
) -> None:
    dice = random.Random(seed)
    host, port = control_plane.server.removeprefix("https://").split(":")
    async with CuttingProxy(host, int(port)).serve() as proxy:
        # From within the TLS handshake to far into the events.
        proxy.cut_after.extend(dice.randrange(500, 20_000) for _ in range(25))
        async with (
            connecting(server=f"https://127.0.0.1:{proxy.port}") as through,
            reflecting(through, CONFIG_MAPS, namespace, streaming=seed % 2 == 0) as (reflector, _),
        ):
            await edit(client, namespace, 80, seed=seed)
            await in_step(client, reflector, namespace)
            assert proxy.cuts >= 2
