"""What a controller promises its reconcile function."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from gkm.base.backoff import Backoff
from gkm.kube.controller import Controller
from gkm.kube.errors import TerminalError
from gkm.kube.metrics import ControllerMeter, Metrics
from gkm.kube.objects import Key
from gkm.kube.queue import WorkQueue
from gkm.kube.reconcile import Result
from support.waiting import until

A, B = Key("ns", "a"), Key("ns", "b")


class Bench:
    """A controller with nothing to watch: tests feed its queue."""

    def __init__(self, reconcile: Callable[[Key], Awaitable[Result]], workers: int, timeout: float) -> None:
        self.registry = CollectorRegistry()
        meter = ControllerMeter(Metrics(self.registry), "bench", workers)
        queue: WorkQueue[Key] = WorkQueue(backoff=Backoff(first=0.001, longest=0.01))
        self.controller = Controller(
            "bench", reconcile, workers=workers, timeout=timeout, queue=queue, metrics=meter
        )
        self.queue = queue

    def count(self, family: str, **labels: str) -> float:
        value = self.registry.get_sample_value(
            f"controller_runtime_{family}", {"controller": "bench", **labels}
        )
        return value or 0.0


@asynccontextmanager
async def bench(
    reconcile: Callable[[Key], Awaitable[Result]], *, workers: int = 2, timeout: float = 5.0
) -> AsyncIterator[Bench]:
    made = Bench(reconcile, workers, timeout)
    task = asyncio.create_task(made.controller.run())
    try:
        yield made
    finally:
        made.controller.stop()
        await task


async def test_a_key_added_while_it_is_worked_on_is_worked_on_once_more() -> None:
    begun: list[Key] = []
    go = asyncio.Event()

    async def reconcile(key: Key) -> Result:
        begun.append(key)
        await go.wait()
        return Result()

    async with bench(reconcile) as made:
        made.queue.add(A)
        await until(lambda: begun == [A])
        for _ in range(5):
            made.queue.add(A)
        made.queue.add(B)
        await until(lambda: begun == [A, B])
        go.set()
        await until(lambda: made.count("reconcile_total", result="success") == 3)
        assert begun == [A, B, A]
        assert made.count("active_workers") == 0


async def test_a_failure_is_retried_until_it_succeeds() -> None:
    tries: list[Key] = []

    async def reconcile(key: Key) -> Result:
        tries.append(key)
        if len(tries) < 4:
            raise RuntimeError("not yet")
        return Result()

    async with bench(reconcile) as made:
        made.queue.add(A)
        await until(lambda: made.count("reconcile_total", result="success") == 1)
        assert len(tries) == 4
        assert made.count("reconcile_errors_total") == 3


async def test_a_terminal_error_waits_for_the_next_change() -> None:
    tries: list[Key] = []

    async def reconcile(key: Key) -> Result:
        tries.append(key)
        raise TerminalError("the image name is not one")

    async with bench(reconcile) as made:
        made.queue.add(A)
        await until(lambda: made.count("terminal_reconcile_errors_total") == 1)
        assert made.queue._schedule.delayed == 0
        made.queue.add(A)
        await until(lambda: len(tries) == 2)


async def test_a_reconcile_that_takes_too_long_is_cancelled_and_retried() -> None:
    cancelled: list[Key] = []

    async def reconcile(key: Key) -> Result:
        if cancelled:
            return Result()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(key)
            raise
        raise AssertionError("unreachable")

    async with bench(reconcile, timeout=0.01) as made:
        made.queue.add(A)
        await until(lambda: made.count("reconcile_total", result="success") == 1)
        assert cancelled == [A]
        assert made.count("reconcile_timeouts_total") == 1


async def test_a_timeout_of_its_own_is_an_ordinary_failure() -> None:
    tries: list[Key] = []

    async def reconcile(key: Key) -> Result:
        tries.append(key)
        if len(tries) == 1:
            raise TimeoutError("the registry did not answer")
        return Result()

    async with bench(reconcile) as made:
        made.queue.add(A)
        await until(lambda: len(tries) == 2)
        assert made.count("reconcile_timeouts_total") == 0


async def test_requeue_after_comes_back_without_a_change() -> None:
    runs: list[Key] = []

    async def reconcile(key: Key) -> Result:
        runs.append(key)
        return Result(requeue_after=0.001) if len(runs) < 3 else Result()

    async with bench(reconcile) as made:
        made.queue.add(A)
        await until(lambda: made.count("reconcile_total", result="success") == 1)
        assert made.count("reconcile_total", result="requeue_after") == 2


async def test_stop_lets_what_is_under_way_end_and_begins_nothing() -> None:
    ended: list[Key] = []
    go = asyncio.Event()

    async def reconcile(key: Key) -> Result:
        await go.wait()
        ended.append(key)
        return Result()

    made = Bench(reconcile, workers=1, timeout=5.0)
    task = asyncio.create_task(made.controller.run())
    made.queue.add(A)
    made.queue.add(B)
    await until(lambda: made.count("active_workers") == 1)
    made.controller.stop()
    go.set()
    await task
    assert ended == [A]


async def test_failures_are_logged_with_key_and_cause(caplog: pytest.LogCaptureFixture) -> None:
    async def reconcile(key: Key) -> Result:
        if key == A:
            raise TerminalError("hopeless")
        raise RuntimeError("not yet")

    with caplog.at_level(logging.WARNING):
        async with bench(reconcile) as made:
            made.queue.add(A)
            made.queue.add(B)
            await until(lambda: made.count("reconcile_errors_total") >= 2)
    text = caplog.text
    assert "bench ns/a: given up until its next change: hopeless" in text
    assert "bench ns/b: next try in" in text
    assert "RuntimeError: not yet" in text
