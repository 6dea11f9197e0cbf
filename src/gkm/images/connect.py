"""A registry's repository, ready to be asked: transport, trust, scheme and credentials put together."""

import functools
import ssl
from pathlib import Path

import httpcore2
import httpx2

from gkm import __version__
from gkm.base.errors import UsageError
from gkm.images.client import RegistryClient
from gkm.images.credentials import environment_credentials
from gkm.images.hosts import Scheme, is_loopback, loopback_scheme
from gkm.images.options import ClientOptions
from gkm.images.proxies import ProxyTransport
from gkm.images.reference import RegistryReference
from gkm.images.registry import RegistryRepository

_CONNECT_SECONDS = 10.0

# Each piece of a body costs as much Python as hashing 300 KB. This is what asyncio reads from a socket at once; the
# library's own 64 KiB cut it in four.
httpcore2.AsyncHTTP11Connection.READ_NUM_BYTES = 256 << 10


async def connect(reference: RegistryReference, options: ClientOptions) -> RegistryRepository:
    """The repository that `reference` names. Only a server on loopback is asked anything yet.

    Raises:
        UsageError: `options.ca` is not a file of certificates.
    """
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
