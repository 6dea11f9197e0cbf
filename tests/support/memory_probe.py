"""A whole manager that mirrors all Pods of a namespace, in a process of its own; it says how large it became.

``python memory_probe.py KUBECONFIG NAMESPACE list|stream`` prints Pods, MiB resident now and at most, seconds to
sync.
"""

import asyncio
import sys
import time
from pathlib import Path

from prometheus_client import CollectorRegistry

from gkm.kube.client import Client
from gkm.kube.connection import Connection, load_config
from gkm.kube.health import HealthServer
from gkm.kube.manager import Manager
from gkm.kube.mapping import itself
from gkm.kube.metrics import Metrics
from gkm.kube.objects import Key
from gkm.kube.reconcile import Result
from gkm.kube.resources import PODS


def mebibytes(what: str) -> float:
    """MiB of this process in memory (proc_pid_status(5)): right now (`VmRSS`), or at most so far (`VmHWM`)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{what}:")[1].split()[0]) / 1024


async def main(kubeconfig: Path, namespace: str, *, streaming: bool) -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    connection = Connection(load_config(kubeconfig), user_agent="probe", observe=metrics.request)
    async with Client(connection, field_manager="probe") as client:
        manager = Manager(client, metrics=metrics, health=HealthServer(host="127.0.0.1", registry=registry))
        pods = manager.reflect(PODS, namespace, streaming=streaming)
        done = 0

        async def reconcile(key: Key) -> Result:
            nonlocal done
            done += pods.store.get(key) is not None
            if done == len(pods.store):
                manager.stop()
            return Result()

        controller = manager.controller("probe", reconcile, workers=4)
        controller.watches(pods, itself)
        began = time.monotonic()
        running = asyncio.create_task(manager.run())
        await pods.synced.wait()
        seconds = time.monotonic() - began
        await running
        print(len(pods.store), f"{mebibytes('VmRSS'):.1f}", f"{mebibytes('VmHWM'):.1f}", f"{seconds:.2f}")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], streaming=sys.argv[3] == "stream"))
