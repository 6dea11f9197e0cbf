"""Clients of the real API server."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gkm.base.backoff import Backoff
from gkm.kube.client import Client
from gkm.kube.connection import Connection, load_config
from gkm.kube.progress import Timing
from gkm.kube.reflector import NoMetrics, Reflector
from gkm.kube.resources import Resource
from support.devcluster import Cluster

# As in production, but that it reconnects every other second and tries again soon.
TIMING = Timing(watch_shortest=1, watch_longest=2, backoff=Backoff(first=0.05, longest=0.5))

Connect = Callable[..., Client]


def connect(kubeconfig: Path, *, agent: str = "gkm-test", server: str = "") -> Client:
    """A client of the cluster that `kubeconfig` names, or of the same at another address."""
    config = load_config(kubeconfig)
    if server:
        config = config._replace(cluster=msgspec.structs.replace(config.cluster, server=server))
    return Client(Connection(config, user_agent=agent), field_manager=agent)


@pytest.fixture
async def client(control_plane: Cluster) -> AsyncIterator[Client]:
    """The administrator."""
    async with connect(control_plane.kubeconfig) as made:
        yield made


@dataclass
class Tally(NoMetrics):
    """Counts what a reflector asked for and how it failed."""

    modes: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)

    def requested(self, mode: str) -> None:
        self.modes[mode] += 1

    def failed(self, reason: str) -> None:
        self.failures[reason] += 1


@pytest.fixture
def reflecting() -> Callable[..., contextlib.AbstractAsyncContextManager[tuple[Reflector[Any], Tally]]]:
    """Run a reflector for a block; gives it and its tally."""

    @contextlib.asynccontextmanager
    async def run(
        client: Client,
        resource: Resource[Any],
        namespace: str = "",
        timing: Timing = TIMING,
        *,
        streaming: bool = False,
    ) -> AsyncIterator[tuple[Reflector[Any], Tally]]:
        tally = Tally()
        made = Reflector(client, resource, namespace, streaming=streaming, timing=timing, metrics=tally)
        task = asyncio.create_task(made.run())
        try:
            yield made, tally
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return run


@pytest.fixture
def connecting(control_plane: Cluster) -> Connect:
    """Make further clients: `connecting(kubeconfig=…, server=…, agent=…)`."""

    def make(kubeconfig: Path | None = None, **how: str) -> Client:
        return connect(kubeconfig or control_plane.kubeconfig, **how)

    return make
