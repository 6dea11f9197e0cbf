"""Which proxy a request takes, by the environment: ``HTTPS_PROXY``, ``HTTP_PROXY``, ``NO_PROXY``.

The rules are those of Go's httpproxy package, because cluster administrators write the variables for Go
programs: lower-case names win; ``NO_PROXY`` lists hosts (which cover their subdomains), ``.suffix``,
addresses, CIDR ranges, each with an optional port, or ``*``; loopback never takes a proxy.
"""

import contextlib
import ipaddress
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

import httpx2

from gkm.base.errors import UsageError
from gkm.base.http import make_transport
from gkm.images.hosts import is_loopback


def proxy_for(scheme: str, host: str, port: int, environ: Mapping[str, str]) -> str | None:
    """The proxy's URL for a request to `host` (name or address without brackets), or None for a direct one.

    Raises:
        UsageError: the variable holds no URL of an HTTP proxy.
    """
    name = f"{scheme}_proxy"
    proxy = environ.get(name) or environ.get(name.upper())
    if not proxy or is_loopback(f"[{host}]" if ":" in host else host):
        return None
    if any(_covers(rule, host.lower(), port) for rule in _rules(environ)):
        return None
    url = proxy if "://" in proxy else f"http://{proxy}"
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        # The value may hold a password, so it is not repeated.
        raise UsageError(f"{name.upper()} names no HTTP proxy: expected http://HOST:PORT")
    return url


def _rules(environ: Mapping[str, str]) -> list[str]:
    text = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    return [rule.strip().lower() for rule in text.split(",") if rule.strip()]


def _covers(rule: str, host: str, port: int) -> bool:
    if rule == "*":
        return True
    # An address or range may be full of colons; a port follows one only after brackets.
    with contextlib.suppress(ValueError):
        network = ipaddress.ip_network(rule, strict=False)
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(host) in network
        return False
    rule, _, rule_port = rule.partition(":") if not rule.startswith("[") else rule[1:].partition("]")
    if rule_port.removeprefix(":") not in ("", str(port)):
        return False
    rule = rule.removeprefix("*")
    return host.endswith(rule) if rule.startswith(".") else host == rule or host.endswith(f".{rule}")


class ProxyTransport(httpx2.AsyncBaseTransport):
    """Sends each request through the proxy that the environment names for its host, with retries.

    One pool of connections per proxy; `context` is the TLS trust of all of them.
    """

    def __init__(self, environ: Mapping[str, str], context: ssl.SSLContext) -> None:
        self._environ = environ
        self._context = context
        self._transports: dict[str | None, httpx2.AsyncBaseTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send `request`; raises `httpx2.TransportError` like the transport below."""
        url = request.url
        port = url.port or (443 if url.scheme == "https" else 80)
        proxy = proxy_for(url.scheme, url.host, port, self._environ)
        if proxy not in self._transports:
            self._transports[proxy] = make_transport(verify=self._context, proxy=proxy)
        return await self._transports[proxy].handle_async_request(request)

    async def aclose(self) -> None:
        """Close every pool."""
        for transport in self._transports.values():
            await transport.aclose()
