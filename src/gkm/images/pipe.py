"""A bounded pipe from a coroutine to a thread: how a download on the event loop feeds blocking code."""

import asyncio
import threading
from collections import deque
from collections.abc import Iterator

_CAPACITY = 4 << 20


class ChunkPipe:
    """Chunks put in on the event loop come out in a thread, in order.

    The loop's side waits while the thread is behind, so that at most `capacity` bytes and one chunk are held;
    the thread's side waits while there is nothing. Made on the event loop; one producer, one consumer.
    """

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self._capacity = capacity
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Event()  # touched on the loop only
        self._room.set()
        self._changed = threading.Condition()  # guards all below
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self._full = False
        self._finished = False
        self._error: BaseException | None = None
        self._dropping = False  # touched on the loop only

    @property
    def error(self) -> BaseException | None:
        """What `fail` was given first."""
        return self._error

    async def put(self, chunk: bytes) -> None:
        """Hand over `chunk`, after waiting for room."""
        await self._room.wait()
        if self._dropping:
            await asyncio.sleep(0)  # the loop's other work is not held up by a fast producer
            return
        with self._changed:
            self._chunks.append(chunk)
            self._held += len(chunk)
            if self._held >= self._capacity:
                self._full = True
                self._room.clear()
            self._changed.notify()

    def finish(self) -> None:
        """Nothing more comes: the thread's iteration ends after the last chunk."""
        with self._changed:
            self._finished = True
            self._changed.notify()

    def drop(self) -> None:
        """The thread is gone: what comes is taken and thrown away."""
        self._dropping = True
        self._room.set()

    def fail(self, error: BaseException) -> None:
        """The thread's iteration raises `error` at its next step, whatever is still held."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify()

    def __iter__(self) -> Iterator[bytes]:
        while (chunk := self._take()) is not None:
            yield chunk

    def _take(self) -> bytes | None:
        with self._changed:
            while not self._chunks and not self._finished and self._error is None:
                self._changed.wait()
            if self._error is not None:
                raise self._error
            if not self._chunks:
                return None
            chunk = self._chunks.popleft()
            self._held -= len(chunk)
            if self._full and self._held <= self._capacity // 2:
                self._full = False
                self._loop.call_soon_threadsafe(self._room.set)
            return chunk
