"""HTTP with retries, the one transport below every client in GKM (Kubernetes and registries alike).

What is retried, and nothing else: connections that could not be made; 429, 502, 503, 504 (honouring
Retry-After, RFC 9110 §10.2.3); and, for idempotent methods only (RFC 9110 §9.2.2), a connection lost before
the response's headers. A lost body is the caller's to resume: only it knows where it stood.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterable

import httpx2

from gkm.base.backoff import Backoff

_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
_RETRIED_STATUS = frozenset({429, 502, 503, 504})

# A peer that vanished (node lost, NAT entry dropped) is noticed in about a minute instead of hours.
SOCKET_OPTIONS: Iterable[tuple[int, int, int]] = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000),
)


class RetryTransport(httpx2.AsyncBaseTransport):
    """Wraps a transport and tries again by class of failure, at most `attempts` times in all.

    A request whose body is a one-shot stream is sent once only. `longest_retry_after` bounds in seconds what
    a server may ask for: a longer wait is returned to the caller as the response it is.
    """

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        *,
        attempts: int = 4,
        backoff: Backoff | None = None,
        longest_retry_after: float = 30.0,
    ) -> None:
        self._inner = inner
        self._attempts = attempts
        self._backoff = backoff or Backoff(first=0.2, longest=5.0)
        self._longest_retry_after = longest_retry_after

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send `request`; raises the last `httpx2.TransportError` when every attempt failed."""
        # A plain byte body can be sent again; an async generator is spent after the first attempt.
        attempts = self._attempts if isinstance(request.stream, httpx2.ByteStream) else 1
        for failures in range(1, attempts + 1):
            last = failures == attempts
            try:
                response = await self._inner.handle_async_request(request)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                if last or _is_certificate_failure(error):
                    raise
            except httpx2.TransportError:
                if last or request.method not in _IDEMPOTENT:
                    raise
            else:
                wait = _retry_after(response) if response.status_code in _RETRIED_STATUS else None
                retry = response.status_code in _RETRIED_STATUS and not last
                if not retry or (wait is not None and wait > self._longest_retry_after):
                    return response
                await response.aclose()
                if wait is not None:
                    await asyncio.sleep(wait)
                    continue
            await asyncio.sleep(self._backoff.delay(failures))
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def aclose(self) -> None:
        """Close the wrapped transport."""
        await self._inner.aclose()


def _is_certificate_failure(error: BaseException | None) -> bool:
    """Whether a certificate was refused: asking again shows the same one."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _retry_after(response: httpx2.Response) -> float | None:
    """Seconds from a Retry-After header; its date form is rare and treated as absent."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isdigit() else None


def make_transport(
    *, verify: ssl.SSLContext | bool = True, proxy: str | None = None, attempts: int = 4
) -> RetryTransport:
    """A retrying HTTP/1.1 transport with TCP keepalive.

    HTTP/2 stays off: it costs more per event here, and a GOAWAY fails the streams in flight
    (measured, docs/adr/0003).
    """
    inner = httpx2.AsyncHTTPTransport(
        verify=verify, proxy=proxy, socket_options=SOCKET_OPTIONS, trust_env=False
    )
    return RetryTransport(inner, attempts=attempts)
