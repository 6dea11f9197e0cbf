"""gkm-agent: the node side, one process: staging and reports (`gkm.agent`), and the CSI driver (`gkm.csi`)."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from gkm.agent.agent import Agent
from gkm.agent.child import Extractor
from gkm.agent.config import AgentConfig
from gkm.agent.confinement import Identity
from gkm.agent.disk import DiskBudget
from gkm.agent.fitness import Hardware
from gkm.agent.resources import GRANTS
from gkm.base.errors import UsageError
from gkm.csi.driver import Driver
from gkm.csi.paths import volume_seen_at
from gkm.csi.settings import Settings
from gkm.gpus.detect import SIMULATED, detect
from gkm.kube.client import Client
from gkm.kube.events import EventRecorder
from gkm.kube.manager import Manager
from gkm.processes.authorities import authorities
from gkm.processes.config import Config
from gkm.processes.process import Process, parse_arguments, run
from gkm.processes.telling import Telling
from gkm.store.location import default_store
from gkm.store.store import Store

NAME = "gkm-agent"
NODE_NAME = "KUBE_NODE_NAME"
"""The environment variable with the Node object's name; upstream's, filled by the DaemonSet."""
CONTROLLER = "gkm.io/agent"

# In a range that neither Debian, systemd nor container images give to users (systemd's UIDS-GIDS, "Summary").
_CHILD = Identity(uid=65521, gid=65521)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM; the exit status. What is mounted stays mounted."""
    options = parse_arguments(NAME, "The node side of GKM: staging and the CSI driver.", arguments)
    return run(NAME, options, lambda config: config.agent_log_level, serve)


async def serve(process: Process) -> None:
    """The agent, until it is told to end.

    Raises:
        UsageError: `NODE_NAME` is not set, or simulated GPUs cannot be read.
        GPUDetectionError: a driver is there but broken.
        SocketError: another agent serves this node.
        StoreError: the store cannot be used.
    """
    config, node = process.config, node_name(os.environ)
    settings = driver_settings(config, node)
    hardware = await asyncio.to_thread(find_hardware, config, os.environ)
    store = await asyncio.to_thread(Store.open, default_store())
    async with process.connect() as connection:
        client = Client(connection, field_manager=NAME)
        recorder = EventRecorder(
            client, controller=CONTROLLER, instance=node, dropped=process.metrics.event_dropped
        )
        manager = Manager(client, metrics=process.metrics, health=process.health, recorder=recorder)
        telling = Telling(recorder, manager.reflect(GRANTS).store.objects)
        agent = Agent(
            manager,
            agent_config(config, node, hardware, process.options.config),
            store,
            Extractor(identity=_CHILD, environ={**os.environ, "GO_LOG": config.extract_log_level}),
            registry=process.registry,
            seen=lambda pod, volume: volume_seen_at(pod, {volume}).root,
            tell=telling.staging,
        )
        driver = Driver(
            settings,
            store,
            caches=agent.answers,
            trees=agent.trees,
            pods=agent.pods,
            events=telling,
            usage=agent.usage,
            restored=agent.restored,
        )
        manager.add_service("driver", driver.run)
        process.health.checks["driver"] = lambda: "" if driver.registered else "kubelet has not registered it"
        async with agent:
            await manager.run()


def node_name(environ: Mapping[str, str]) -> str:
    """The name of this node. Raises `UsageError`."""
    name = environ.get(NODE_NAME, "")
    if not name:
        raise UsageError(f"set {NODE_NAME} to the name of this node, as the DaemonSet does")
    return name


def find_hardware(config: Config, environ: Mapping[str, str]) -> Hardware:
    """The GPUs to judge caches against, simulated ones in place of the node's where they are set.

    Raises:
        GPUDetectionError: a driver is there but broken.
        UsageError: the simulated GPUs cannot be read.
    """
    simulated = config.simulated_gpus or environ.get(SIMULATED, "")
    gpus = detect({**environ, SIMULATED: simulated})
    return Hardware(gpus, unchecked=config.nogpu and not simulated)


def driver_settings(config: Config, node: str) -> Settings:
    """What the CSI driver is told."""
    return Settings(
        node_name=node,
        kubelet_root=Path(config.kubelet_root),
        write_limit_bytes=config.pod_write_limit,
        write_budget_bytes=config.node_write_budget,
    )


def agent_config(config: Config, node: str, hardware: Hardware, directory: Path | None) -> AgentConfig:
    """What the agent is told; `directory` is where ``gkm-config`` is mounted."""
    return AgentConfig(
        node=node,
        hardware=hardware,
        parallel=config.staging_parallel,
        disk=DiskBudget(kept_free=config.node_disk_free / 100, most_bytes=config.node_disk_limit),
        ca=authorities(directory),
        plain_http=frozenset(config.registry_plain_http),
    )
