"""The example controller does what its README says, in less than sixty lines."""

import asyncio
import os
import signal
import sys

from gkm.kube.client import Client
from gkm.kube.errors import NotFoundError
from gkm.kube.resources import CONFIG_MAPS
from support.devcluster import Cluster
from support.parts import REPOSITORY

MAIN = REPOSITORY / "examples" / "controller" / "main.py"


async def text_becomes(client: Client, namespace: str, wanted: str) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                found = await client.get(CONFIG_MAPS, "greeting", namespace)
                if found.data == {"text": wanted}:
                    return
            except NotFoundError:
                pass
            await asyncio.sleep(0.05)


async def test_the_example_greets_and_keeps_greeting(
    client: Client, control_plane: Cluster, namespace: str
) -> None:
    assert len(MAIN.read_text().splitlines()) < 60
    environment = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)}
    process = await asyncio.create_subprocess_exec(sys.executable, str(MAIN), env=environment)
    try:
        control_plane.kubectl("label", "namespace", namespace, "example.com/greet=world")
        await text_becomes(client, namespace, "Hello, world!")
        await client.patch(CONFIG_MAPS, "greeting", {"data": {"text": "Go away!"}}, namespace)
        await text_becomes(client, namespace, "Hello, world!")
        await client.delete(CONFIG_MAPS, "greeting", namespace)
        await text_becomes(client, namespace, "Hello, world!")
        control_plane.kubectl("label", "namespace", namespace, "--overwrite", "example.com/greet=moon")
        await text_becomes(client, namespace, "Hello, moon!")
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 30) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
