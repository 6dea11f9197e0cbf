"""gkm-operator: resolves caches, judges digests, writes grants and volumes, and counts. One replica leads."""

import os
from collections.abc import Sequence

from gkm.api.names import SYSTEM_NAMESPACE
from gkm.images.options import ClientOptions
from gkm.kube.client import Client
from gkm.kube.events import EventRecorder
from gkm.kube.fence import Fence
from gkm.kube.leader import LeaderElector, own_identity
from gkm.kube.manager import Manager
from gkm.kube.metrics import LeaderMeter
from gkm.operator.controller import add_operator
from gkm.operator.settings import Settings
from gkm.processes.authorities import authorities
from gkm.processes.process import Process, parse_arguments, run
from gkm.trust.gate import DefaultGate

NAME = "gkm-operator"
LEASE = "gkm-operator"
CONTROLLER = "gkm.io/operator"
"""Who Events are from."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM; the exit status."""
    options = parse_arguments(NAME, "The cluster side of GKM.", arguments)
    return run(NAME, options, lambda config: config.operator_log_level, operate)


async def operate(process: Process) -> None:
    """The operator, until it is told to end.

    Raises:
        LeadershipLostError: another replica may lead now; this one must be started anew.
        KubeError: the API server cannot be reached in the way the configuration says.
    """
    fence = Fence()
    identity = own_identity()
    async with process.connect(fence) as connection, process.connect(attempts=1) as election:
        client = Client(connection, field_manager=NAME)
        elector = LeaderElector(
            # Renewals pass whatever the fence says, and one that comes late is worth nothing.
            Client(election, field_manager=NAME),
            fence,
            name=LEASE,
            namespace=SYSTEM_NAMESPACE,
            identity=identity,
            metrics=LeaderMeter(process.metrics, LEASE),
        )
        recorder = EventRecorder(
            client, controller=CONTROLLER, instance=identity, dropped=process.metrics.event_dropped
        )
        manager = Manager(
            client, metrics=process.metrics, elector=elector, health=process.health, recorder=recorder
        )
        config = process.config
        settings = Settings(
            registries=ClientOptions(ca=authorities(process.options.config), environ=dict(os.environ)),
            plain_http_hosts=frozenset(config.registry_plain_http),
        )
        gate = DefaultGate(config.trust_default)
        add_operator(manager, gate, recorder, settings, registry=process.registry)
        await manager.run()
