"""What can be set of the operator; durations in seconds. `gkm.processes` fills it from gkm-config."""

from dataclasses import dataclass, field

from gkm.api.names import SYSTEM_NAMESPACE
from gkm.base.backoff import Backoff
from gkm.images.options import ClientOptions


@dataclass(frozen=True, slots=True)
class Settings:
    """The defaults are what a cluster gets that sets nothing."""

    system_namespace: str = SYSTEM_NAMESPACE
    """Where mirrored pull secrets lie, and the pull secrets of ClusterGKMCaches."""
    registries: ClientOptions = field(default_factory=ClientOptions)
    """How registries are reached. Its credentials are never used: those come from pull secrets alone."""
    plain_http_hosts: frozenset[str] = frozenset()
    """Registries, as ``host[:port]``, that are spoken to in plain HTTP; loopback needs no entry."""
    workers: int = 4
    """How many caches are worked on at once."""
    resolutions: int = 8
    """How many registries are asked at once."""
    resolve_seconds: float = 30.0
    """How long one resolution may take."""
    backoff: Backoff = field(default_factory=lambda: Backoff(first=1.0, longest=300.0, jitter=0.2))
    """How long a cache whose resolution failed waits before it is resolved again."""
    secret_seconds: float = 300.0
    """How often pull secrets are read again."""
    count_seconds: float = 10.0
    """The shortest time between two writes that change only the counts of one cache."""
    node_grace_seconds: float = 300.0
    """How long a node that is not Ready still counts."""
    answer_seconds: float = 30.0
    """How long nodes have to report a new digest before none of them is taken to fit it."""
    volume_writes: int = 200
    """After how many claims and volumes made or deleted a reconcile leaves the rest to the next, so that it
    ends within its time."""
    retry_seconds: float = 2.0
    """When to look again at what another actor holds up."""
