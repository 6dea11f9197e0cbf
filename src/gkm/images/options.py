"""How registries are to be reached."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gkm.images.credentials import CredentialSource


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """How to reach registries; of no meaning to layout directories."""

    ca: Path | None = None
    """A PEM file of authorities to trust beside the system's own; with it, loopback is spoken to in TLS."""
    plain_http: bool = False
    """Speak plain HTTP, to any host."""
    credentials: CredentialSource | None = None
    """Where to find credentials; None: where the environment says (`environment_credentials`)."""
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """The environment, for proxies and credentials."""
    stall_seconds: float = 30.0
    """How long a connection may be silent before it counts as broken."""
