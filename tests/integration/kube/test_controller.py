"""A controller against the real API server while everything between them breaks."""

import asyncio
import random
from collections import Counter

from gkm.base.backoff import Backoff
from gkm.kube.client import Client
from gkm.kube.events import EventRecorder, Type
from gkm.kube.manager import Manager
from gkm.kube.mapping import itself
from gkm.kube.objects import Key
from gkm.kube.progress import Timing
from gkm.kube.reconcile import Result
from gkm.kube.resources import CONFIG_MAPS, NODES
from support.cutting_proxy import CuttingProxy
from support.devcluster import Cluster
from support.waiting import until

TIMING = Timing(watch_shortest=1, watch_longest=2, backoff=Backoff(first=0.05, longest=0.5))
OBJECTS = 20


async def test_no_key_is_lost_and_none_is_worked_on_twice_at_once(
    client: Client, control_plane: Cluster, namespace: str, connecting
) -> None:
    """The reconciler copies `data.in` to `data.out`, through the same bad connection."""
    dice = random.Random(4)
    at_once: Counter[Key] = Counter()
    host, port = control_plane.server.removeprefix("https://").split(":")
    async with CuttingProxy(host, int(port)).serve() as proxy:
        proxy.cut_after.extend(dice.randrange(2_000, 30_000) for _ in range(40))
        async with connecting(server=f"https://127.0.0.1:{proxy.port}") as through:
            manager = Manager(through, timing=TIMING)
            maps = manager.reflect(CONFIG_MAPS, namespace, labels="copied=yes")

            async def reconcile(key: Key) -> Result:
                at_once[key] += 1
                assert at_once[key] == 1, f"{key} is worked on twice at once"
                try:
                    found = maps.store.get(key)
                    if found is not None and found.data and found.data.get("out") != found.data["in"]:
                        body = {"data": {"out": found.data["in"]}}
                        await through.patch(CONFIG_MAPS, key.name, body, key.namespace)
                finally:
                    at_once[key] -= 1
                return Result()

            manager.controller("copy", reconcile, workers=4).watches(maps, itself)
            running = asyncio.create_task(manager.run(signals=False))
            wanted = dict.fromkeys((f"object-{number}" for number in range(OBJECTS)), "0")
            for name in wanted:
                metadata = {"name": name, "namespace": namespace, "labels": {"copied": "yes"}}
                await client.create(CONFIG_MAPS, {"metadata": metadata, "data": {"in": "0"}})
            for edit in range(60):
                name = f"object-{dice.randrange(OBJECTS)}"
                wanted[name] = str(edit)
                await client.patch(CONFIG_MAPS, name, {"data": {"in": str(edit)}}, namespace)
                if edit == 30:
                    await asyncio.to_thread(control_plane.restart, "kube-apiserver")
                if edit % 20 == 0:
                    proxy.cut()

            def copied() -> dict[str, str | None]:
                return {o.metadata.name: (o.data or {}).get("out") for o in maps.store.objects()}

            await until(lambda: copied() == wanted, "the last edit of each was copied", 60)
            manager.stop()
            await running
    assert proxy.cuts >= 3


async def test_events_are_told_and_counted(client: Client, control_plane: Cluster, namespace: str) -> None:
    now = 0.0
    recorder = EventRecorder(client, controller="gkm.io/test", instance="one", clock=lambda: now)
    sending = asyncio.create_task(recorder.run())
    about = await client.create(CONFIG_MAPS, {"metadata": {"name": "a", "namespace": namespace}})
    node = await client.create(NODES, {"metadata": {"name": "kube-events-node"}})
    try:
        for _ in range(5):
            recorder.event(CONFIG_MAPS, about, Type.WARNING, "NotNow", "the registry is away")
        now = 61.0
        recorder.event(CONFIG_MAPS, about, Type.WARNING, "NotNow", "the registry is away")
        recorder.event(NODES, node, Type.NORMAL, "Seen", "it is there")
        await recorder.flush(30)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await client.delete(NODES, "kube-events-node")
    listed = control_plane.kubectl("describe", "configmap", "a", "-n", namespace)
    assert "Warning  NotNow" in listed
    assert "the registry is away" in listed
    series = ["get", "events.events.k8s.io", "-n", namespace, "-o", "jsonpath={.items[*].series.count}"]
    assert control_plane.kubectl(*series) == "6"
    seen = ["get", "events.events.k8s.io", "-n", "default", "-o", "jsonpath={.items[*].note}"]
    assert "it is there" in control_plane.kubectl(*seen)
