"""A TCP proxy that cuts connections, after so many bytes or all at once, and can refuse new ones."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator


class CuttingProxy:
    """Passes connections on to `host`:`port`, from a port of its own on loopback.

    Each new connection takes a number from `cut_after`: it is reset once that many bytes came back from the
    server. `open` is whether new connections are let through.
    """

    def __init__(self, host: str, port: int) -> None:
        self.cut_after: deque[int] = deque()
        self.cuts = 0
        self.open = True
        self.port = 0
        self._target = (host, port)
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator["CuttingProxy"]:
        """Listen, until the block is left."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.cut()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await server.wait_closed()

    def cut(self) -> None:
        """Reset every connection there is."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            await self._connect(reader, writer)
        finally:
            writer.transport.abort()
            self._writers.discard(writer)
            self._tasks.discard(task)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.open:
            return
        limit = self.cut_after.popleft() if self.cut_after else None
        try:
            back, on = await asyncio.open_connection(*self._target)
        except OSError:
            return
        self._writers.add(on)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, on, None))
                group.create_task(self._pass(back, writer, limit))
        except* (OSError, EOFError):
            pass
        finally:
            on.transport.abort()
            self._writers.discard(on)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None
    ) -> None:
        passed = 0
        while data := await reader.read(65536):
            if limit is not None and passed + len(data) > limit:
                writer.write(data[: limit - passed])
                await writer.drain()
                self.cuts += 1
                raise EOFError
            passed += len(data)
            writer.write(data)
            await writer.drain()
        raise EOFError
