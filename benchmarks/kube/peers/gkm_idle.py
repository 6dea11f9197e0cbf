"""A manager as an operator runs it: it leads, serves health and metrics, mirrors three kinds, and has nothing to do.

Prints ``ready`` when it is idle, and its size so many seconds later. The audit log tells what it asked for.
"""

import asyncio
import sys
import time
from pathlib import Path

from prometheus_client import CollectorRegistry
from report import report

from gkm.kube.client import Client
from gkm.kube.connection import Connection, load_config
from gkm.kube.events import EventRecorder
from gkm.kube.fence import Fence
from gkm.kube.health import HealthServer
from gkm.kube.leader import LeaderElector
from gkm.kube.manager import Manager
from gkm.kube.mapping import itself, owner
from gkm.kube.metrics import Metrics
from gkm.kube.objects import Key
from gkm.kube.reconcile import Result
from gkm.kube.resources import CONFIG_MAPS, NODES, PODS

AGENT = "bench-idle"


async def main(kubeconfig: Path, namespace: str, seconds: int) -> None:
    config, fence, registry = load_config(kubeconfig), Fence(), CollectorRegistry()
    async with (
        Client(Connection(config, user_agent=AGENT, fence=fence), field_manager=AGENT) as client,
        Client(Connection(config, user_agent=AGENT, attempts=1), field_manager=AGENT) as own,
    ):
        manager = Manager(
            client,
            metrics=Metrics(registry),
            elector=LeaderElector(own, fence, name="idle", namespace=namespace),
            health=HealthServer(host="127.0.0.1", registry=registry),
            recorder=EventRecorder(client, controller="gkm.io/idle", instance="one"),
        )
        maps, pods = manager.reflect(CONFIG_MAPS, namespace), manager.reflect(PODS, namespace)
        nodes = manager.reflect(NODES)
        worked = asyncio.Event()

        async def reconcile(_: Key) -> Result:
            worked.set()
            return Result()

        controller = manager.controller("idle", reconcile)
        controller.watches(maps, itself)
        controller.watches(pods, owner(CONFIG_MAPS))
        running = asyncio.create_task(manager.run(signals=False))
        # Kubernetes puts its CA into every namespace: that one is reconciled.
        for event in (nodes.synced, worked):
            await event.wait()
        await asyncio.sleep(1)
        spent = time.process_time()
        print("ready", flush=True)
        await asyncio.sleep(seconds)
        assert not running.done()
        report(len(maps.store), spent=time.process_time() - spent)


asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
