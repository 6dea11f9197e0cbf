"""Events never cost the one who tells them anything, whatever the API server makes of them."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

import msgspec
import pytest

from gkm.kube.aggregation import AggregationTiming
from gkm.kube.events import EventRecorder, Type
from gkm.kube.fence import Fence
from gkm.kube.objects import ConfigMap, ObjectMeta
from gkm.kube.resources import CONFIG_MAPS
from support.fault_apiserver import FaultServer
from support.waiting import until

ABOUT = ConfigMap(metadata=ObjectMeta(name="a", namespace="ns", uid="u-1"))


class Told:
    def __init__(self, server: FaultServer, *, backlog: int = 100, fence: Fence | None = None) -> None:
        self.dropped: Counter[str] = Counter()
        self.now = 0.0
        self.client = server.connect(fence)
        self.recorder = EventRecorder(
            self.client,
            controller="example.com/test",
            instance="one",
            timing=AggregationTiming(refresh=60, burst=1000),
            backlog=backlog,
            dropped=lambda why: self.dropped.update([why]),
            clock=lambda: self.now,
        )

    def tell(self, note: str = "n") -> None:
        self.recorder.event(CONFIG_MAPS, ABOUT, Type.WARNING, "NotNow", note)

    @contextlib.asynccontextmanager
    async def sending(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.recorder.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.client.aclose()


async def test_repeats_are_one_event_with_a_count(server: FaultServer) -> None:
    told = Told(server)
    async with told.sending():
        for _ in range(30):
            told.tell()
        told.now = 61
        told.tell()
        await told.recorder.flush(10)
    ((_, _, _), event), *others = [(k, o) for k, o in server.objects.items() if k[0] == "events"]
    assert others == []
    assert event["series"]["count"] == 31
    assert (event["reason"], event["type"], event["regarding"]["uid"]) == ("NotNow", "Warning", "u-1")
    assert told.dropped == {"aggregated": 29}
    assert [asked.method for asked in server.asked] == ["POST", "PATCH"]


async def test_an_event_that_the_server_forgot_is_told_anew(server: FaultServer) -> None:
    told = Told(server)
    async with told.sending():
        told.tell()
        await told.recorder.flush(10)
        (name,) = [key[2] for key in server.objects if key[0] == "events"]
        server.remove(name, plural="events")
        told.now = 61
        told.tell()
        await told.recorder.flush(10)
    assert [key[2] for key in server.objects if key[0] == "events"] == [name]


@pytest.mark.parametrize("code", [403, 404, 422, 500])
async def test_a_refused_event_is_dropped_and_the_next_is_sent(server: FaultServer, code: int) -> None:
    told = Told(server)
    server.refuse_writes = code
    async with told.sending():
        told.tell("first")
        await told.recorder.flush(10)
        server.refuse_writes = 0
        told.tell("second")
        await told.recorder.flush(10)
    assert [o["note"] for k, o in server.objects.items() if k[0] == "events"] == ["second"]
    assert sum(told.dropped.values()) == 1


async def test_a_silent_server_fills_the_backlog_and_no_more(server: FaultServer) -> None:
    told = Told(server, backlog=5)
    server.deaf = True
    async with told.sending():
        told.tell("taken out and on its way")
        await until(lambda: server.asked)
        for number in range(20):
            told.tell(str(number))
        assert told.dropped == {"backlog": 15}
        await told.recorder.flush(0.01)


async def test_without_the_lease_nothing_is_told(server: FaultServer) -> None:
    told = Told(server, fence=Fence())
    async with told.sending():
        told.tell()
        await told.recorder.flush(10)
    assert told.dropped == {"NotLeader": 1}
    assert server.asked == []


def test_long_notes_are_cut_to_what_the_server_takes(server: FaultServer) -> None:
    told = Told(server)
    told.tell("ä" * 2000)
    event = told.recorder._queue.get_nowait()[0]
    assert len(event.note.encode()) <= 1024
    assert msgspec.json.encode(event.note)
