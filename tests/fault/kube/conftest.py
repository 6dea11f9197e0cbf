"""A failing API server, and a reflector whose patience fits a test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from gkm.kube.objects import ConfigMap
from gkm.kube.reflector import Reflector
from gkm.kube.resources import CONFIG_MAPS
from support.fault_apiserver import FAST, FaultServer


@pytest.fixture
async def server() -> AsyncIterator[FaultServer]:
    async with FaultServer().serve() as running:
        yield running


@pytest.fixture
async def reflector(server: FaultServer) -> AsyncIterator[Reflector[ConfigMap]]:
    """Not yet synced; runs until the test ends."""
    async with server.connect() as client:
        made = Reflector(client, CONFIG_MAPS, timing=FAST)
        task = asyncio.create_task(made.run())
        yield made
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
