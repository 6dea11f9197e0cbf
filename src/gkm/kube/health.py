"""The small HTTP server for probes and metrics: ``/healthz``, ``/readyz``, ``/metrics``.

It runs in the event loop that does the work, so a loop that hangs fails its liveness probe. GET and HEAD, one
request per connection, bounded in bytes and seconds; nothing else is served.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Self

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

# A probe's or scraper's request is some hundred bytes, and arrives at once.
_LONGEST_REQUEST = 16 << 10
_PATIENCE = 10.0
_PHRASES = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}
_TEXT = "text/plain; charset=utf-8"

Check = Callable[[], str]
"""What is wrong, in a line; empty if nothing is."""


class HealthServer:
    """Serves at `host`:`port` (0: any free one, then in `port`) while used as a context.

    ``/healthz`` says that the loop runs, ``/readyz`` is 503 with the list of what `checks` (by name) find
    wrong.
    """

    def __init__(
        self,
        *,
        host: str = "",
        port: int = 0,
        checks: dict[str, Check] | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.checks: dict[str, Check] = checks or {}
        self._registry = registry
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, self.host or None, self.port, limit=_LONGEST_REQUEST
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                code, kind, body, method = 400, _TEXT, "not an HTTP request\n", "GET"
                with contextlib.suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
                    head = await reader.readuntil(b"\r\n\r\n")
                    method, target, _ = head.split(b"\r\n")[0].decode("latin-1").split(" ")
                    code, kind, body = self._answer(method, target.partition("?")[0])
                data = body.encode()
                head_lines = [
                    f"HTTP/1.1 {code} {_PHRASES[code]}",
                    f"Content-Type: {kind}",
                    f"Content-Length: {len(data)}",
                    "Connection: close",
                ]
                writer.write(("\r\n".join(head_lines) + "\r\n\r\n").encode())
                if method != "HEAD":
                    writer.write(data)
                await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    def _answer(self, method: str, path: str) -> tuple[int, str, str]:
        if method not in ("GET", "HEAD"):
            return 405, _TEXT, "GET or HEAD\n"
        if path == "/healthz":
            return 200, _TEXT, "ok\n"
        if path == "/readyz":
            found = {name: check() for name, check in self.checks.items()}
            lines = [f"{name}: {problem or 'ok'}\n" for name, problem in found.items()]
            return 503 if any(found.values()) else 200, _TEXT, "".join(lines) or "ok\n"
        if path == "/metrics" and self._registry is not None:
            return 200, CONTENT_TYPE_LATEST, generate_latest(self._registry).decode()
        return 404, _TEXT, "there are /healthz, /readyz and /metrics\n"
