"""Leader election when the API server is slow, silent, or refuses; and when the Lease is not what it was."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from gkm.kube.election import LeaseTiming
from gkm.kube.errors import LeadershipLostError
from gkm.kube.fence import Fence
from gkm.kube.leader import LeaderElector
from support.fault_apiserver import FaultServer
from support.waiting import until

# A lease's duration is sent in whole seconds.
TIMING = LeaseTiming(lease=2.0, renew=1.0, retry=0.2)


class Candidate:
    """An elector in a task of its own."""

    def __init__(self, server: FaultServer, name: str) -> None:
        self.fence = Fence()
        self.client = server.connect(agent=name)
        self.elector = LeaderElector(
            self.client, self.fence, name="lead", namespace="ns", identity=name, timing=TIMING
        )
        self.task = asyncio.create_task(self.elector.run())

    async def end(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError, LeadershipLostError):
            await self.task
        await self.client.aclose()


@contextlib.asynccontextmanager
async def candidate(server: FaultServer, name: str) -> AsyncIterator[Candidate]:
    made = Candidate(server, name)
    try:
        yield made
    finally:
        await made.end()


def holder(server: FaultServer) -> str:
    return server.objects[("leases", "ns", "lead")]["spec"]["holderIdentity"]


async def test_the_first_leads_and_the_second_waits_without_asking(server: FaultServer) -> None:
    async with candidate(server, "a") as first:
        await until(lambda: first.fence.is_open)
        async with candidate(server, "b") as second:
            renewed = server.version
            await until(lambda: server.version >= renewed + 4)
            assert not second.fence.is_open
            # It watches; the only request besides is the look before it could know who leads.
            assert sum(not asked.is_watch for asked in server.asked if asked.agent == "b") <= 1
        assert holder(server) == "a"


async def test_a_released_lease_is_taken_by_the_next_at_once(server: FaultServer) -> None:
    async with candidate(server, "a") as first, candidate(server, "b") as second:
        await until(lambda: first.fence.is_open or second.fence.is_open)
        leader, other = (first, second) if first.fence.is_open else (second, first)
        leader.elector.stop()
        await leader.task
        assert not leader.fence.is_open
        await until(lambda: other.fence.is_open)
        spec = server.objects[("leases", "ns", "lead")]["spec"]
        assert spec["leaseTransitions"] == 1
        assert spec["acquireTime"].endswith("Z")


async def test_a_leader_that_cannot_renew_stops_before_its_lease_runs_out(server: FaultServer) -> None:
    async with candidate(server, "a") as first:
        await until(lambda: first.fence.is_open)
        server.deaf = True
        with pytest.raises(LeadershipLostError, match="not renewed in time"):
            await first.task
        assert not first.fence.is_open
        server.deaf = False
        assert holder(server) == "a", "nobody else could have it yet"


async def test_a_leader_survives_a_short_silence(server: FaultServer) -> None:
    async with candidate(server, "a") as first:
        await until(lambda: first.fence.is_open)
        server.refuse_writes = 503
        count = len(server.asked)
        await until(lambda: len(server.asked) > count)
        server.refuse_writes = 0
        renewed = server.version
        await until(lambda: server.version > renewed)
        assert first.fence.is_open


async def test_a_label_on_the_lease_does_not_end_the_leadership(server: FaultServer) -> None:
    async with candidate(server, "a") as first:
        await until(lambda: first.fence.is_open)
        spec = server.objects[("leases", "ns", "lead")]["spec"]
        server.put("lead", plural="leases", metadata={"labels": {"seen": "yes"}}, spec=spec)
        labelled = server.version
        await until(lambda: server.version > labelled + 1)
        assert first.fence.is_open
        assert server.objects[("leases", "ns", "lead")]["metadata"]["labels"] == {"seen": "yes"}


async def test_a_lease_taken_by_force_ends_the_leadership(server: FaultServer) -> None:
    async with candidate(server, "a") as first:
        await until(lambda: first.fence.is_open)
        spec = {**server.objects[("leases", "ns", "lead")]["spec"], "holderIdentity": "thief"}
        server.put("lead", plural="leases", spec=spec)
        with pytest.raises(LeadershipLostError, match="thief"):
            await first.task
        assert holder(server) == "thief"


async def test_a_deleted_lease_ends_the_leadership_and_others_wait_it_out(server: FaultServer) -> None:
    async with candidate(server, "a") as first:
        await until(lambda: first.fence.is_open)
        async with candidate(server, "b") as second:
            await until(lambda: any(asked.agent == "b" for asked in server.asked))
            await asyncio.sleep(0.1)
            server.remove("lead", plural="leases")
            with pytest.raises(LeadershipLostError):
                await first.task
            assert not second.fence.is_open
            await until(lambda: second.fence.is_open)


async def test_while_refused_a_candidate_keeps_trying(server: FaultServer) -> None:
    server.tokens = {"someone else's"}
    async with candidate(server, "a") as first:
        await until(lambda: len([a for a in server.asked if not a.is_watch]) >= 3)
        assert not first.fence.is_open
        server.tokens = set()
        await until(lambda: first.fence.is_open)
