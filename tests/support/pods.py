"""Many Pods for the price of a request each: they name a scheduler that does not exist, and so never run."""

import asyncio
import hashlib
from typing import Any

from gkm.kube.client import Client
from gkm.kube.objects import ConfigMap
from gkm.kube.resources import CONFIG_MAPS, PODS


def _annotations(name: str) -> dict[str, str]:
    """What a Pod of a workload controller carries besides: about 7 KiB of JSON in all, as the server sends it.

    A quarter of it is unlike anything else, as checksums and addresses are. Without that a list of such Pods
    would shrink to a thirtieth when compressed, which flatters whoever asks for that; so it is a tenth.
    """
    return {
        f"example.com/annotation-{number}": "x" * 200
        if number % 4
        else hashlib.shake_128(f"{name}/{number}".encode()).hexdigest(100)
        for number in range(16)
    }


def pod(name: str, namespace: str, owner: ConfigMap) -> dict[str, Any]:
    """A Pod of `owner` that is never scheduled."""
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app": "web", "pod-template-hash": "5d4f8c7b9d", "number": name},
            "annotations": _annotations(name),
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "name": owner.metadata.name,
                    "uid": owner.metadata.uid,
                    "controller": True,
                }
            ],
        },
        "spec": {
            "schedulerName": "none",
            "automountServiceAccountToken": False,
            "containers": [
                {"name": f"c{number}", "image": "gkm.test/none:1", "env": [{"name": "A", "value": "b"}]}
                for number in range(3)
            ],
        },
    }


async def create_pods(client: Client, namespace: str, count: int, *, at_once: int = 24) -> None:
    """Create `count` Pods."""
    # It must exist: the garbage collector deletes what belongs to nothing.
    owner = await client.create(CONFIG_MAPS, {"metadata": {"name": "owner", "namespace": namespace}})
    names = iter([f"pod-{number:05}" for number in range(count)])

    async def create() -> None:
        for name in names:
            await client.create(PODS, pod(name, namespace, owner))

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(create())
