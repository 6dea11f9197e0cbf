"""A whole controller: every namespace labelled `example.com/greet` gets a ConfigMap `greeting`, and keeps it.

Run it with a kubeconfig in $KUBECONFIG (or inside a Pod): ``python main.py``. Stop it with Ctrl-C.
"""

import asyncio
import logging

from gkm.kube.client import Client
from gkm.kube.connection import Connection, load_config
from gkm.kube.manager import Manager
from gkm.kube.mapping import itself, owner
from gkm.kube.objects import Key, PartialObject
from gkm.kube.reconcile import Result
from gkm.kube.resources import CONFIG_MAPS, Resource

log = logging.getLogger("greeter")
LABEL = "example.com/greet"
NAMESPACES = Resource(PartialObject, "", "v1", "Namespace", "namespaces", namespaced=False)


async def main() -> None:
    async with Client(Connection(load_config(), user_agent="greeter"), field_manager="greeter") as client:
        manager = Manager(client)
        namespaces = manager.reflect(NAMESPACES, labels=LABEL)
        greetings = manager.reflect(CONFIG_MAPS, fields="metadata.name=greeting")

        async def reconcile(key: Key) -> Result:
            """`key` is a namespace's. The stores are read; only a real change costs a request."""
            namespace = namespaces.store.get(key)
            if namespace is None or namespace.metadata.deletion_timestamp:
                return Result()
            wanted = {"text": f"Hello, {(namespace.metadata.labels or {})[LABEL]}!"}
            found = greetings.store.get(Key(key.name, "greeting"))
            if found is None or found.data != wanted:
                ours = {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "name": key.name,
                    "uid": namespace.metadata.uid,
                    "controller": True,
                }
                metadata = {"name": "greeting", "namespace": key.name, "ownerReferences": [ours]}
                await client.apply(CONFIG_MAPS, {"metadata": metadata, "data": wanted})
                log.info("greeted %s", key)
            return Result()

        controller = manager.controller("greeter", reconcile)
        controller.watches(namespaces, itself)
        controller.watches(greetings, owner(NAMESPACES))
        await manager.run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main())
