"""Waiting workers get keys as they come; failures back off per key, and all together."""

import asyncio

import pytest

from gkm.base.backoff import Backoff
from gkm.kube.bucket import TokenBucket
from gkm.kube.queue import QueueClosedError, WorkQueue

PLAIN = Backoff(first=1, factor=2, longest=60, jitter=0)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_a_waiting_worker_gets_the_key_that_comes() -> None:
    queue: WorkQueue[str] = WorkQueue()
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    assert await waiting == "a"


async def test_a_delayed_key_wakes_a_waiting_worker() -> None:
    queue: WorkQueue[str] = WorkQueue()
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add_after("a", 0.01)
    assert await waiting == "a"


async def test_every_waiting_worker_is_told_of_the_end() -> None:
    queue: WorkQueue[str] = WorkQueue()
    waiting = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [QueueClosedError] * 3
    queue.add("a")
    with pytest.raises(QueueClosedError):
        await queue.get()


async def test_a_cancelled_worker_takes_no_key_with_it() -> None:
    queue: WorkQueue[str] = WorkQueue()
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await queue.get() == "a"


async def test_a_key_backs_off_with_each_failure_until_it_is_forgotten() -> None:
    queue: WorkQueue[str] = WorkQueue(backoff=PLAIN, clock=Clock())
    assert [queue.add_failed("a") for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert queue.add_failed("b") == 1
    queue.forget("a")
    assert queue.add_failed("a") == 1


async def test_all_retries_together_are_limited() -> None:
    clock = Clock()
    queue: WorkQueue[int] = WorkQueue(
        backoff=Backoff(first=0, jitter=0), bucket=TokenBucket(rate=2, burst=3), clock=clock
    )
    assert [queue.add_failed(key) for key in range(6)] == [0, 0, 0, 0.5, 1.0, 1.5]
    clock.now += 10
    assert [queue.add_failed(key) for key in range(4)] == [0, 0, 0, 0.5]


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    bucket = TokenBucket(rate=1, burst=2)
    assert [bucket.try_take(0.0) for _ in range(3)] == [True, True, False]
    assert [bucket.try_take(1000.0) for _ in range(3)] == [True, True, False]
    assert bucket.try_take(1000.5) is False
    assert bucket.try_take(1001.0) is True
