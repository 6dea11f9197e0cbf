"""What operator and agent have in common: arguments, configuration, a connection, health and metrics."""

import argparse
import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, PlatformCollector, ProcessCollector

from gkm import __version__
from gkm.base.errors import GKMError, UsageError
from gkm.kube.connection import Connection, load_config
from gkm.kube.fence import Fence
from gkm.kube.health import HealthServer
from gkm.kube.metrics import Metrics
from gkm.processes.config import Config, LogLevel, read_config
from gkm.processes.logs import log_to_stderr

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    config: Path | None
    """The directory with ``gkm-config``; None: every default."""
    kubeconfig: Path | None
    port: int


class Process:
    """One process called `name`, with a registry of metrics and a health server of its own."""

    def __init__(self, name: str, options: Options, config: Config) -> None:
        self.name = name
        self.options = options
        self.config = config
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        build = Gauge("gkm_build_info", "Always 1; which release runs", ["version"], registry=registry)
        build.labels(__version__).set(1)
        self.registry = registry
        self.metrics = Metrics(registry)
        self.health = HealthServer(port=options.port, registry=registry)

    def connect(self, fence: Fence | None = None, *, attempts: int = 4) -> Connection:
        """A connection to the API server; close it. Raises `ConfigurationError`."""
        config = load_config(self.options.kubeconfig)
        return Connection(
            config,
            user_agent=f"{self.name}/{__version__}",
            fence=fence,
            attempts=attempts,
            observe=self.metrics.request,
        )


def parse_arguments(name: str, description: str, arguments: Sequence[str] | None = None) -> Options:
    """The command line; ends the process with status 2 where it cannot be read."""
    parser = argparse.ArgumentParser(prog=name, description=description)
    parser.add_argument(
        "--config",
        type=Path,
        metavar="DIR",
        help="where the ConfigMap gkm-config is mounted (default: defaults)",
    )
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="default: the pod's account, then $KUBECONFIG"
    )
    parser.add_argument(
        "--port", type=int, default=8081, help="serves /healthz, /readyz and /metrics (default: 8081)"
    )
    parser.add_argument("--version", action="version", version=__version__)
    options = parser.parse_args(arguments)
    return Options(options.config, options.kubeconfig, options.port)


def run(
    name: str,
    options: Options,
    level: Callable[[Config], LogLevel],
    body: Callable[[Process], Coroutine[Any, Any, None]],
) -> int:
    """Run `body` to its end; the exit status: 0 after an orderly one, 2 for a wrong configuration, else 1."""
    log_to_stderr(LogLevel.INFO)
    try:
        config = read_config(options.config) if options.config else Config()
        log_to_stderr(level(config))
        _log.info("%s %s begins", name, __version__)
        asyncio.run(body(Process(name, options, config)))
    except UsageError as error:
        _log.error("%s", error)
        return 2
    except GKMError as error:
        _log.error("%s: %s", error.reason, error)
        return 1
    except OSError:
        _log.exception("%s cannot go on", name)
        return 1
    except asyncio.CancelledError:
        _log.warning("ended at once")
        return 1
    _log.info("%s ended", name)
    return 0
