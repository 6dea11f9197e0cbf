"""A manager that mirrors Pods and reconciles those that change: CPU seconds for so many events.

Prints ``ready`` when it is idle. Done when `changes` Pods were seen with the label ``changed`` and reconciled.
"""

import asyncio
import sys
import time
from pathlib import Path

from report import report

from gkm.kube.client import Client
from gkm.kube.connection import Connection, load_config
from gkm.kube.manager import Manager
from gkm.kube.mapping import itself
from gkm.kube.objects import Key
from gkm.kube.reconcile import Result
from gkm.kube.resources import PODS


async def main(kubeconfig: Path, namespace: str, changes: int) -> None:
    async with Client(
        Connection(load_config(kubeconfig), user_agent="bench-events"), field_manager="bench"
    ) as client:
        manager = Manager(client)
        pods = manager.reflect(PODS, namespace)
        first: set[Key] = set()
        done: set[Key] = set()
        idle = asyncio.Event()

        async def reconcile(key: Key) -> Result:
            first.add(key)
            if len(first) == len(pods.store):
                idle.set()
            pod = pods.store.get(key)
            if pod is not None and "changed" in (pod.metadata.labels or {}):
                done.add(key)
            if len(done) == changes:
                manager.stop()
            return Result()

        manager.controller("bench", reconcile, workers=4).watches(pods, itself)
        running = asyncio.create_task(manager.run())
        await pods.synced.wait()
        await idle.wait()
        began, spent = time.monotonic(), time.process_time()
        print("ready", flush=True)
        await running
        report(len(done), seconds=time.monotonic() - began, spent=time.process_time() - spent)


asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
