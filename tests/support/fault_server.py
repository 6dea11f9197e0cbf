"""An HTTP server that misbehaves on request: it cuts, stalls, lies and refuses, on loopback, in the test's loop."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Request:
    """What a client sent. Header names are in lower case."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]
"""Writes one response; True-ish endings are the server's: it closes every connection after one reply."""


def answer(status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Reply:
    """A whole response. A `content-length` among `headers` replaces the true one."""
    return cut(status, body, len(body), headers)


def cut(status: int, body: bytes, after: int, headers: Mapping[str, str] | None = None) -> Reply:
    """A response that promises all of `body` and ends after some of it."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        writer.write(_head(status, {"content-length": str(len(body)), **(headers or {})}))
        writer.write(body[:after])
        await writer.drain()

    return reply


def endless(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> Reply:
    """A response without a length, which ends where the connection does."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        writer.write(_head(status, headers or {}) + body)
        await writer.drain()

    return reply


def stall(status: int, body: bytes, after: int, headers: Mapping[str, str] | None = None) -> Reply:
    """A response that stops in its middle and keeps the connection until the client leaves."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        await cut(status, body, after, headers)(writer)
        await asyncio.sleep(3600)

    return reply


def hang_up() -> Reply:
    """No response at all."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    return reply


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Status", "connection: close", *(f"{k}: {v}" for k, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@dataclass
class FaultServer:
    """Answers each request as `handler` says; `requests` are all that came, in order."""

    host: str
    handler: Callable[[Request], Reply]
    requests: list[Request] = field(default_factory=list)

    def paths(self, method: str) -> list[str]:
        """The paths of all requests with `method`."""
        return [r.path for r in self.requests if r.method == method]


@asynccontextmanager
async def fault_server(
    handler: Callable[[Request], Reply], context: ssl.SSLContext | None = None
) -> AsyncIterator[FaultServer]:
    """Serve on a free loopback port, in TLS with a `context`, until the block ends."""
    running: set[asyncio.Task[None]] = set()
    server = FaultServer("", handler)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            request = await _read_request(reader)
            server.requests.append(request)
            await server.handler(request)(writer)
        except (asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            running.discard(task)
            writer.close()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
    server.host = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ", 2)
    headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    url = urlsplit(target)
    return Request(method, url.path, parse_qs(url.query), headers, body)
