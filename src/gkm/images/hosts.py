"""Which hosts may be spoken to in plain HTTP, and how a registry's name becomes an address."""

import asyncio
import contextlib
import ipaddress
from typing import Literal, TypeAlias

Scheme: TypeAlias = Literal["https", "http"]

_PROBE_SECONDS = 5.0
_STATUS_LINE = b"HTTP/1.1 200"

# Docker Hub's API stands under another name than its images (distribution/reference, "domain.go").
_API_HOSTS = {"docker.io": "registry-1.docker.io"}


def api_host(host: str) -> str:
    """Where the API of the registry `host` is spoken."""
    return _API_HOSTS.get(host, host)


def split_host(host: str) -> tuple[str, int | None]:
    """The name or address, without brackets, and the port of ``host[:port]``."""
    if host.startswith("["):
        name, _, port = host[1:].partition("]")
        port = port.removeprefix(":")
    else:
        name, _, port = host.partition(":")
    return name, int(port) if port else None


def is_loopback(host: str) -> bool:
    """Whether ``host[:port]`` can only be this machine: 127.0.0.0/8, ::1, or a localhost name (RFC 6761)."""
    name, _ = split_host(host)
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


async def loopback_scheme(host: str) -> Scheme:
    """Whether the server at the loopback address `host` speaks plain HTTP or TLS.

    Asked in plain, because a server that expects TLS answers that at once with an alert or, as nginx and Go
    do, with status 400; a plain server may wait for ever for the rest of what a TLS client says. One that is
    down is taken for TLS: the caller's own request will tell what is wrong.
    """
    name, port = split_host(host)
    request = f"GET /v2/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        async with asyncio.timeout(_PROBE_SECONDS):
            reader, writer = await asyncio.open_connection(name, port or 80)
            try:
                writer.write(request)
                start = await reader.readexactly(len(_STATUS_LINE))
            finally:
                writer.transport.abort()
        if start.startswith(b"HTTP/") and not start.endswith(b"400"):
            return "http"
    return "https"
