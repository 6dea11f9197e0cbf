"""A manager that competes for a lease and, while it leads, writes as fast as it can: a process for tests to
kill.

``python competitor.py KUBECONFIG NAMESPACE NAME``. It prints a line for each thing that matters. What it
writes to is a Lease too, because of those the audit log keeps the bodies.
"""

import asyncio
import sys
from pathlib import Path

from gkm.kube.client import Client
from gkm.kube.connection import Connection, load_config
from gkm.kube.errors import KubeError, LeadershipLostError
from gkm.kube.fence import Fence
from gkm.kube.leader import LeaderElector
from gkm.kube.manager import Manager
from gkm.kube.objects import Key
from gkm.kube.reconcile import Result
from gkm.kube.resources import LEASES

WORK = "work"
LEAD = "lead"


async def compete(kubeconfig: Path, namespace: str, name: str) -> None:
    config, fence = load_config(kubeconfig), Fence()
    async with (
        Client(Connection(config, user_agent=name, fence=fence), field_manager=name) as client,
        Client(Connection(config, user_agent=f"{name}-election", attempts=1), field_manager=name) as own,
    ):
        elector = LeaderElector(own, fence, name=LEAD, namespace=namespace, identity=name)
        manager = Manager(client, elector=elector, drain=5.0)
        work = manager.reflect(LEASES, namespace, fields=f"metadata.name={WORK}")

        async def reconcile(key: Key) -> Result:
            # Many writes in one reconcile, so that one is always about to be sent. Each reads first.
            for _ in range(200):
                try:
                    found = await client.get(LEASES, key.name, key.namespace)
                    body = {
                        "metadata": {"resourceVersion": found.metadata.resource_version},
                        "spec": {"leaseTransitions": (found.spec.lease_transitions or 0) + 1},
                    }
                    await client.patch(LEASES, key.name, body, key.namespace)
                except KubeError as error:
                    print("refused", type(error).__name__, flush=True)
                    raise
            return Result(requeue_after=0.0)

        controller = manager.controller("work", reconcile)
        controller.watches(work, lambda change: [change.key])
        print("started", flush=True)
        await manager.run()
        print("ended in order", flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(compete(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
    except LeadershipLostError as error:
        print("lost", error, flush=True)
        sys.exit(3)
