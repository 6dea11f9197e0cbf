"""From what a person wrote to a repository that is ready to use."""

import functools
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from gkm import __version__
from gkm.base.errors import UsageError
from gkm.images.client import RegistryClient
from gkm.images.credentials import CredentialSource, environment_credentials
from gkm.images.hosts import Scheme, is_loopback, loopback_scheme
from gkm.images.layout import LayoutRepository
from gkm.images.proxies import ProxyTransport
from gkm.images.reference import LayoutReference, Reference, RegistryReference
from gkm.images.registry import RegistryRepository
from gkm.images.repository import Repository

_CONNECT_SECONDS = 10.0


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


@asynccontextmanager
async def open_repository(
    reference: Reference, options: ClientOptions | None = None
) -> AsyncIterator[Repository]:
    """The repository that `reference` names, open until the block ends.

    A server on loopback is asked whether it speaks TLS; else nothing is sent yet, so that a registry that is
    down, or a directory that is no layout, shows at the first use.

    Raises:
        UsageError: `options.ca` is not a file of certificates.
    """
    repository: Repository
    if isinstance(reference, LayoutReference):
        repository = LayoutRepository(reference.directory)
    else:
        repository = await _registry(reference, options or ClientOptions())
    try:
        yield repository
    finally:
        await repository.aclose()


async def _registry(reference: RegistryReference, options: ClientOptions) -> RegistryRepository:
    http = httpx2.AsyncClient(
        transport=ProxyTransport(options.environ, trust(options.ca)),
        # Digests are of stored bytes, so nothing may be compressed on the way.
        headers={"user-agent": f"gkm/{__version__}", "accept-encoding": "identity"},
        timeout=httpx2.Timeout(options.stall_seconds, connect=_CONNECT_SECONDS, pool=None),
        trust_env=False,
    )
    client = RegistryClient(
        http,
        options.credentials or environment_credentials(options.environ),
        reference.host,
        reference.repository,
        await _scheme(reference.host, options),
        plain_http=options.plain_http,
    )
    return RegistryRepository(client, http)


async def _scheme(host: str, options: ClientOptions) -> Scheme:
    if options.plain_http:
        return "http"
    if is_loopback(host) and options.ca is None:
        return await loopback_scheme(host)
    return "https"


def trust(ca: Path | None) -> ssl.SSLContext:
    """TLS as the system trusts it, and the authorities in the PEM file `ca` beside.

    Raises:
        UsageError: there is no such file, or no certificate in it.
    """
    if ca is None:
        return _system_trust()
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"{ca} is not a PEM file of CA certificates: {error}") from error
    return context


@functools.cache
def _system_trust() -> ssl.SSLContext:
    # Parsing the system's authorities takes longer than all else about opening a repository.
    return ssl.create_default_context()
