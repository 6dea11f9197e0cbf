"""What the HTTP transport tries again, and what it does not, against a real server on loopback."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx2
import pytest

from gkm.base.backoff import Backoff
from gkm.base.http import RetryTransport

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


def status(code: int, **headers: str) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(
        [f"HTTP/1.1 {code} X", "Content-Length: 0", "Connection: close", *lines, "", ""]
    ).encode()


@asynccontextmanager
async def server(*replies: bytes | None) -> AsyncIterator[tuple[str, list[str]]]:
    """A server that gives `replies` in turn (None hangs up), and the request lines it saw."""
    seen: list[str] = []
    left = list(replies)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        seen.append(head.split(b"\r\n")[0].decode())
        reply = left.pop(0)
        if reply is not None:
            writer.write(reply)
            await writer.drain()
        writer.close()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", seen
    finally:
        listening.close()
        await listening.wait_closed()


def client(attempts: int = 3) -> httpx2.AsyncClient:
    inner = httpx2.AsyncHTTPTransport(trust_env=False)
    quick = Backoff(first=0.001, longest=0.001)
    return httpx2.AsyncClient(transport=RetryTransport(inner, attempts=attempts, backoff=quick))


@pytest.mark.parametrize("first", [status(429), status(502), status(503), status(504), None])
async def test_a_passing_failure_is_asked_again(first: bytes | None) -> None:
    async with server(first, OK) as (url, seen), client() as http:
        assert (await http.get(url)).text == "ok"
    assert len(seen) == 2


@pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 500, 501])
async def test_an_answer_is_an_answer(code: int) -> None:
    async with server(status(code), OK) as (url, seen), client() as http:
        assert (await http.get(url)).status_code == code
    assert len(seen) == 1


async def test_a_request_that_may_have_acted_is_not_sent_twice() -> None:
    async with server(None, OK) as (url, seen), client() as http:
        with pytest.raises(httpx2.TransportError):
            await http.post(url, content=b"act")
    assert len(seen) == 1


async def test_a_spent_body_is_not_sent_again() -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"once"

    async with server(status(503), OK) as (url, seen), client() as http:
        assert (await http.put(url, content=body())).status_code == 503
    assert len(seen) == 1


async def test_the_last_answer_is_given_when_patience_ends() -> None:
    async with server(*[status(503)] * 3) as (url, seen), client(attempts=3) as http:
        assert (await http.get(url)).status_code == 503
    assert len(seen) == 3


async def test_retry_after_is_waited_for_within_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    sleep: Callable[[float], object] = asyncio.sleep

    async def note(seconds: float) -> None:
        waited.append(seconds)
        await sleep(0)  # type: ignore[misc]  # asyncio.sleep itself

    monkeypatch.setattr("gkm.base.http.asyncio.sleep", note)
    async with server(status(429, retry_after="7"), OK) as (url, _), client() as http:
        assert (await http.get(url)).text == "ok"
    assert waited == [7.0]
    async with server(status(429, retry_after="3600"), OK) as (url, seen), client() as http:
        assert (await http.get(url)).status_code == 429
    assert len(seen) == 1
