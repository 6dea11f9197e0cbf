"""A manager with one controller: seconds until the store is complete, and until every key was reconciled.

A fourth argument ``stream`` begins with a streaming list.
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


async def main(kubeconfig: Path, namespace: str, count: int, *, streaming: bool) -> None:
    async with Client(
        Connection(load_config(kubeconfig), user_agent="bench-gkm"), field_manager="bench"
    ) as client:
        manager = Manager(client)
        pods = manager.reflect(PODS, namespace, streaming=streaming)
        seen = set()

        async def reconcile(key: Key) -> Result:
            seen.add(key)
            if len(seen) == count:
                manager.stop()
            return Result()

        manager.controller("bench", reconcile, workers=4).watches(pods, itself)
        began = time.monotonic()
        running = asyncio.create_task(manager.run())
        await pods.synced.wait()
        synced = time.monotonic() - began
        await running
        report(len(pods.store), synced=synced, reconciled=time.monotonic() - began)


asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), streaming="stream" in sys.argv[4:]))
