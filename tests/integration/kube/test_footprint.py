"""What a manager costs: memory with many objects, and requests when nothing happens."""

import asyncio
import subprocess
import sys
from collections import Counter

import pytest

import support.memory_probe
from gkm.kube.client import Client
from gkm.kube.connection import Connection, load_config
from gkm.kube.events import EventRecorder
from gkm.kube.fence import Fence
from gkm.kube.leader import LeaderElector
from gkm.kube.manager import Manager
from gkm.kube.mapping import itself, owner
from gkm.kube.objects import Key
from gkm.kube.reconcile import Result
from gkm.kube.resources import CONFIG_MAPS, NODES, PODS
from support.devcluster import Cluster
from support.pods import create_pods
from support.waiting import until

PODS_IN_ALL = 10_000
MIB = 70.0
IDLE_SECONDS = 60.0


@pytest.mark.timeout(600)
async def test_ten_thousand_pods_fit_in_seventy_mebibytes(
    client: Client, control_plane: Cluster, namespace: str
) -> None:
    """Not even for a moment, and whichever way they came."""
    await create_pods(client, namespace, PODS_IN_ALL)
    for form in ("list", "stream"):
        got = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, support.memory_probe.__file__, str(control_plane.kubeconfig), namespace, form],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        count, mebibytes, most, seconds = got.stdout.split()
        print(f"{count} Pods by {form}: {mebibytes} MiB resident, at most {most}, synced in {seconds} s")
        assert int(count) == PODS_IN_ALL
        assert float(mebibytes) <= float(most) <= MIB


@pytest.mark.waits
async def test_an_idle_manager_asks_for_nothing(control_plane: Cluster, namespace: str) -> None:
    """It leads, watches three kinds, has reconciled, and told an event; then a minute of silence."""
    config, fence, agent = load_config(control_plane.kubeconfig), Fence(), "gkm-idle"
    reconciled: Counter[Key] = Counter()
    async with (
        Client(Connection(config, user_agent=agent, fence=fence), field_manager=agent) as client,
        Client(Connection(config, user_agent=agent, attempts=1), field_manager=agent) as own,
    ):
        elector = LeaderElector(own, fence, name="idle", namespace=namespace)
        recorder = EventRecorder(client, controller="gkm.io/idle", instance="one")
        manager = Manager(client, elector=elector, recorder=recorder)
        maps, pods = manager.reflect(CONFIG_MAPS, namespace), manager.reflect(PODS, namespace)
        nodes = manager.reflect(NODES)

        async def reconcile(key: Key) -> Result:
            reconciled[key] += 1
            return Result()

        controller = manager.controller("idle", reconcile)
        controller.watches(maps, itself)
        controller.watches(pods, owner(CONFIG_MAPS))
        running = asyncio.create_task(manager.run(signals=False))
        await until(lambda: reconciled and nodes.synced.is_set(), "the manager works", 30)
        assert manager.not_ready() == ""
        mark = control_plane.audit_mark()
        await asyncio.sleep(IDLE_SECONDS)
        asked = Counter(
            (event.verb, event.object_ref.resource if event.object_ref else "")
            for event in control_plane.audit(mark)
            if event.user_agent == agent
        )
        manager.stop()
        await running
    renewals = asked.pop(("patch", "leases"))
    assert not asked, "an idle manager asks for nothing but its lease"
    # Every two seconds, less what a busy machine adds.
    assert IDLE_SECONDS / 6 < renewals <= IDLE_SECONDS / 2 + 1
