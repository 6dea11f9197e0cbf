"""What an agent is told at its start; who reads it from where is `gkm.processes`' business."""

from dataclasses import dataclass, field
from pathlib import Path

from gkm.agent.disk import DiskBudget
from gkm.agent.fitness import Hardware


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """One node's agent."""

    node: str
    """The Node object's name."""
    hardware: Hardware
    parallel: int = 2
    """How many digests are staged at the same time."""
    jitter_seconds: float = 5.0
    """Eager staging begins at a random moment within so many seconds of the grant; a pod that waits ends it."""
    unused_seconds: float = 30.0
    """How long a tree that nobody needs is kept."""
    collect_seconds: float = 15.0
    """How often garbage is looked for, at least."""
    disk: DiskBudget = field(default_factory=DiskBudget)
    ca: Path | None = None
    """A PEM file of authorities that registries' certificates may be signed by, beside the system's own."""
    plain_http: frozenset[str] = frozenset()
    """Registries, ``HOST[:PORT]``, that are spoken to in plain HTTP."""
