"""The pipe between the event loop and a thread: order, waiting on both sides, errors."""

import asyncio
import threading

import pytest

from gkm.images.pipe import ChunkPipe

CHUNKS = [bytes([number % 256]) * (number % 97 + 1) for number in range(2000)]


async def feed(pipe: ChunkPipe) -> None:
    for chunk in CHUNKS:
        await pipe.put(chunk)
    pipe.finish()


@pytest.mark.parametrize("capacity", [1, 100, 1 << 20])
async def test_everything_arrives_in_order(capacity: int) -> None:
    pipe = ChunkPipe(capacity)
    received, _ = await asyncio.gather(asyncio.to_thread(lambda: list(pipe)), feed(pipe))
    assert received == CHUNKS


async def test_the_loop_waits_while_the_thread_is_behind() -> None:
    pipe = ChunkPipe(capacity=1000)
    feeding = asyncio.create_task(feed(pipe))
    for _ in range(5000):  # enough turns to put all, if nothing held it back
        await asyncio.sleep(0)
    assert not feeding.done()

    may_read, held = threading.Event(), []

    def read() -> int:
        may_read.wait()
        total = 0
        for chunk in pipe:
            held.append(pipe._held)
            total += len(chunk)
        return total

    reading = asyncio.get_running_loop().run_in_executor(None, read)
    may_read.set()
    await feeding
    assert await reading == sum(map(len, CHUNKS))
    assert max(held) < 1000 + 97


async def test_an_error_comes_before_what_is_held() -> None:
    pipe = ChunkPipe()
    await pipe.put(b"chunk")
    pipe.fail(ValueError("first"))
    pipe.fail(KeyError("second"))
    with pytest.raises(ValueError, match="first"):
        await asyncio.to_thread(lambda: list(pipe))


async def test_an_error_wakes_a_waiting_thread() -> None:
    pipe = ChunkPipe()
    started = threading.Event()

    def read() -> list[bytes]:
        started.set()
        return list(pipe)

    reading = asyncio.get_running_loop().run_in_executor(None, read)
    await asyncio.to_thread(started.wait)
    pipe.fail(ValueError("late"))
    with pytest.raises(ValueError, match="late"):
        await reading
