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


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists here are small: let them be read in many parts all the same."""
    monkeypatch.setattr("gkm.kube.splitting.ListSplitter.__init__.__defaults__", (64,))


@pytest.fixture(params=["list", "stream"])
async def reflector(
    server: FaultServer, request: pytest.FixtureRequest
) -> AsyncIterator[Reflector[ConfigMap]]:
    """Not yet synced; runs until the test ends. It begins with either form of a list."""
    async with server.connect() as client:
        made = Reflector(client, CONFIG_MAPS, streaming=request.param == "stream", timing=FAST)
        task = asyncio.create_task(made.run())
        yield made
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
