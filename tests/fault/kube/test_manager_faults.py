"""How a manager starts, is ready, and ends: in order, late, twice told, or because a part failed."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest

from gkm.base.errors import UsageError
from gkm.kube.client import Client
from gkm.kube.election import LeaseTiming
from gkm.kube.errors import KubeError, LeadershipLostError
from gkm.kube.events import EventRecorder, Type
from gkm.kube.fence import Fence
from gkm.kube.health import HealthServer
from gkm.kube.leader import LeaderElector
from gkm.kube.manager import Manager
from gkm.kube.mapping import itself
from gkm.kube.objects import Key
from gkm.kube.reconcile import Result
from gkm.kube.resources import CONFIG_MAPS, PODS
from support.fault_apiserver import FAST, Fault, FaultServer
from support.waiting import until

TIMING = LeaseTiming(lease=2.0, renew=1.0, retry=0.2)


@pytest.fixture
async def client(server: FaultServer) -> AsyncIterator[Client]:
    async with server.connect() as made:
        yield made


def elector(server: FaultServer, fence: Fence) -> LeaderElector:
    return LeaderElector(
        server.connect(agent="election"), fence, name="lead", namespace="ns", identity="me", timing=TIMING
    )


async def nothing(key: Key) -> Result:
    return Result()


async def test_controllers_wait_until_every_store_is_complete(server: FaultServer, client: Client) -> None:
    server.put("a")
    manager = Manager(client, timing=FAST)
    maps, pods = manager.reflect(CONFIG_MAPS), manager.reflect(PODS)
    done: list[Key] = []

    async def reconcile(key: Key) -> Result:
        assert pods.synced.is_set()
        done.append(key)
        return Result()

    controller = manager.controller("test", reconcile)
    controller.watches(maps, itself)
    controller.watches(pods, itself)
    server.chance = lambda asked: Fault("status", code=403) if asked.path.endswith("/pods") else None
    running = asyncio.create_task(manager.run(signals=False))
    await until(lambda: maps.synced.is_set() and pods.problem)
    assert done == []
    assert "pods: Forbidden" in manager.not_ready()
    assert "configmaps" not in manager.not_ready()
    server.chance = lambda _: None
    await until(lambda: done == [Key("ns", "a")])
    assert manager.not_ready() == ""
    manager.stop()
    assert manager.not_ready() == "stopping"
    await running


async def test_the_same_objects_are_watched_once(server: FaultServer, client: Client) -> None:
    manager = Manager(client)
    assert manager.reflect(CONFIG_MAPS) is manager.reflect(CONFIG_MAPS)
    assert manager.reflect(CONFIG_MAPS) is not manager.reflect(CONFIG_MAPS, labels="a=b")
    assert manager.reflect(CONFIG_MAPS) is not manager.reflect(CONFIG_MAPS.metadata_only())
    manager.controller("one", nothing)
    with pytest.raises(UsageError, match="'one'"):
        manager.controller("one", nothing)
    manager.stop()
    await manager.run(signals=False)
    with pytest.raises(UsageError, match="runs already"):
        manager.reflect(CONFIG_MAPS)


async def test_the_end_waits_for_what_is_under_way_then_tells_then_lets_go(server: FaultServer) -> None:
    server.put("a")
    story: list[str] = []
    fence = Fence()
    client = server.connect(fence)
    recorder = EventRecorder(client, controller="example.com/c", instance="i")
    manager = Manager(client, elector=elector(server, fence), recorder=recorder, timing=FAST)
    maps = manager.reflect(CONFIG_MAPS)
    begun = asyncio.Event()

    async def reconcile(key: Key) -> Result:
        begun.set()
        await until(lambda: manager.not_ready() == "stopping")
        obj = maps.store.get(key)
        assert obj is not None
        await client.patch(CONFIG_MAPS, key.name, {"data": {"done": "yes"}}, key.namespace)
        recorder.event(CONFIG_MAPS, obj, Type.NORMAL, "Done", "at the very end")
        story.append("reconciled")
        return Result()

    manager.controller("test", reconcile).watches(maps, itself)
    running = asyncio.create_task(manager.run(signals=False))
    await begun.wait()
    manager.stop()
    await running
    await client.aclose()
    last_write = [asked for asked in server.asked if asked.method != "GET"][-1]
    assert story == ["reconciled"]
    assert server.objects[("configmaps", "ns", "a")]["data"] == {"done": "yes"}
    assert [o["reason"] for k, o in server.objects.items() if k[0] == "events"] == ["Done"]
    assert last_write.path.endswith("/leases/lead"), "the lease is given up last"
    assert server.objects[("leases", "ns", "lead")]["spec"]["holderIdentity"] == ""


async def test_a_reconcile_that_does_not_end_is_cancelled_after_the_drain(
    server: FaultServer, client: Client
) -> None:
    server.put("a")
    manager = Manager(client, drain=0.05, timing=FAST)
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def reconcile(key: Key) -> Result:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return Result()

    manager.controller("test", reconcile).watches(manager.reflect(CONFIG_MAPS), itself)
    running = asyncio.create_task(manager.run(signals=False))
    await begun.wait()
    manager.stop()
    await running
    assert cancelled.is_set()


async def test_a_lost_lease_cancels_reconciles_and_is_the_error(server: FaultServer) -> None:
    server.put("a")
    fence = Fence()
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def reconcile(key: Key) -> Result:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return Result()

    async with server.connect(fence) as client:
        manager = Manager(client, elector=elector(server, fence), timing=FAST)
        manager.controller("test", reconcile).watches(manager.reflect(CONFIG_MAPS), itself)
        running = asyncio.create_task(manager.run(signals=False))
        await begun.wait()
        server.refuse_writes = 503
        with pytest.raises(LeadershipLostError):
            await running
    assert cancelled.is_set()
    assert not fence.is_open


async def test_without_the_lease_it_is_ready_and_reconciles_nothing(server: FaultServer) -> None:
    server.put("a")
    server.put("lead", plural="leases", spec={"holderIdentity": "other", "leaseDurationSeconds": 3600})
    fence, done = Fence(), []

    async def reconcile(key: Key) -> Result:
        done.append(key)
        return Result()

    async with server.connect(fence) as client:
        manager = Manager(client, elector=elector(server, fence), timing=FAST)
        maps = manager.reflect(CONFIG_MAPS)
        manager.controller("test", reconcile).watches(maps, itself)
        running = asyncio.create_task(manager.run(signals=False))
        await until(lambda: manager.not_ready() == "")
        server.put("b")
        await until(lambda: len(maps.store) == 2)
        manager.stop()
        await running
    assert done == []
    assert server.objects[("leases", "ns", "lead")]["spec"]["holderIdentity"] == "other"


async def test_a_part_that_fails_or_ends_takes_everything_with_it(
    server: FaultServer, client: Client
) -> None:
    async def fails() -> None:
        raise RuntimeError("the webhook server broke")

    async def ends() -> None:
        await asyncio.sleep(0)

    manager = Manager(client)
    manager.add_service("webhooks", fails)
    with pytest.raises(RuntimeError, match="broke"):
        await manager.run(signals=False)
    manager = Manager(client)
    manager.add_service("webhooks", ends)
    with pytest.raises(KubeError, match="'webhooks' ended on its own"):
        await manager.run(signals=False)


async def test_a_signal_ends_in_order_and_a_second_one_at_once(server: FaultServer, client: Client) -> None:
    manager = Manager(client, timing=FAST)
    maps = manager.reflect(CONFIG_MAPS)
    running = asyncio.create_task(manager.run())
    await until(maps.synced.is_set)
    os.kill(os.getpid(), signal.SIGTERM)
    await running

    server.put("a")
    manager = Manager(client, timing=FAST)
    begun = asyncio.Event()

    async def reconcile(key: Key) -> Result:
        begun.set()
        await asyncio.Event().wait()
        return Result()

    manager.controller("test", reconcile).watches(manager.reflect(CONFIG_MAPS), itself)
    running = asyncio.create_task(manager.run())
    await begun.wait()
    os.kill(os.getpid(), signal.SIGINT)
    await until(lambda: manager.not_ready() == "stopping")
    assert not running.done()
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_probes_follow_the_manager(server: FaultServer, client: Client) -> None:
    health = HealthServer(host="127.0.0.1")
    manager = Manager(client, health=health, timing=FAST)
    maps = manager.reflect(CONFIG_MAPS)
    server.chance = lambda _: Fault("status", code=404)

    async def ready() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", health.port)
        writer.write(b"GET /readyz HTTP/1.1\r\n\r\n")
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return int(answer.split(b" ")[1])

    running = asyncio.create_task(manager.run(signals=False))
    await until(lambda: maps.refused)
    assert await ready() == 503
    server.chance = lambda _: None
    await until(lambda: manager.not_ready() == "")
    assert await ready() == 200
    manager.stop()
    await running
