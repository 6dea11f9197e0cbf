"""Two managers and one lease, as processes, and what the audit log says they did."""

import asyncio
import contextlib
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import support.competitor
from devcluster.audit import Event
from gkm.kube.client import Client
from gkm.kube.objects import Lease, LeaseSpec, ObjectMeta
from gkm.kube.resources import LEASES
from support.competitor import LEAD, WORK
from support.devcluster import Cluster
from support.waiting import until


@dataclass
class Competitor:
    """One of the processes."""

    process: Process
    name: str
    said: list[str] = field(default_factory=list)

    async def listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.said.append(line.decode().strip())


@contextlib.asynccontextmanager
async def competing(cluster: Cluster, namespace: str, name: str) -> AsyncIterator[Competitor]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        support.competitor.__file__,
        str(cluster.kubeconfig),
        namespace,
        name,
        stdout=PIPE,
    )
    made = Competitor(process, name)
    listening = asyncio.create_task(made.listen())
    try:
        yield made
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await listening


def writes(events: list[Event], name: str) -> list[Event]:
    """The writes of the competitor `name` as the leader, in the order in which the server received them."""
    found = [e for e in events if e.write and e.user_agent == name and e.stage == "ResponseComplete"]
    return sorted(found, key=lambda e: e.request_received_timestamp)


def taken(events: list[Event], name: str) -> Event | None:
    """The write by which `name` took the lease."""
    for event in events:
        succeeded = event.write and event.response_status.code in (200, 201)
        if event.user_agent == f"{name}-election" and succeeded and event.stage == "ResponseComplete":
            return event
    return None


async def leader_of(client: Client, namespace: str) -> str:
    leases = await client.list_all(LEASES, namespace, fields=f"metadata.name={LEAD}")
    return leases[0].spec.holder_identity or "" if leases else ""


async def prepare(client: Client, namespace: str) -> None:
    meta = ObjectMeta(name=WORK, namespace=namespace)
    await client.create(LEASES, Lease(metadata=meta, spec=LeaseSpec(lease_transitions=0)))


async def test_a_killed_leader_is_replaced_when_its_lease_ran_out(
    client: Client, control_plane: Cluster, namespace: str
) -> None:
    await prepare(client, namespace)
    mark = control_plane.audit_mark()
    async with competing(control_plane, namespace, "one") as one:
        await until(lambda: writes(control_plane.audit(mark), "one"))
        async with competing(control_plane, namespace, "two") as two:
            await until(lambda: "started" in two.said)
            one.process.kill()
            await until(lambda: writes(control_plane.audit(mark), "two"), "two works", 30)
    events = control_plane.audit(mark)
    last = writes(events, "one")[-1].stage_timestamp
    took = taken(events, "two")
    assert took is not None
    assert last < took.request_received_timestamp
    assert await leader_of(client, namespace) == "two"


async def test_a_leader_that_is_told_to_end_hands_over_at_once(
    client: Client, control_plane: Cluster, namespace: str
) -> None:
    await prepare(client, namespace)
    mark = control_plane.audit_mark()
    async with (
        competing(control_plane, namespace, "one") as one,
    ):
        await until(lambda: writes(control_plane.audit(mark), "one"))
        async with competing(control_plane, namespace, "two") as two:
            await until(lambda: "started" in two.said)
            one.process.send_signal(signal.SIGTERM)
            assert await one.process.wait() == 0
            assert one.said[-1] == "ended in order"
            await until(lambda: writes(control_plane.audit(mark), "two"))
    lease = await client.get(LEASES, LEAD, namespace)
    assert lease.spec.lease_transitions == 1


async def test_a_paused_leader_changes_nothing_when_it_wakes(
    client: Client, control_plane: Cluster, namespace: str
) -> None:
    await prepare(client, namespace)
    mark = control_plane.audit_mark()
    async with competing(control_plane, namespace, "one") as one:
        await until(lambda: len(writes(control_plane.audit(mark), "one")) > 20)
        async with competing(control_plane, namespace, "two") as two:
            await until(lambda: "started" in two.said)
            one.process.send_signal(signal.SIGSTOP)
            await until(lambda: len(writes(control_plane.audit(mark), "two")) > 20, "two works", 30)
            one.process.send_signal(signal.SIGCONT)
            assert await asyncio.wait_for(one.process.wait(), 30) == 3
            assert one.said[-1].startswith("lost")
    events = control_plane.audit(mark)
    took = taken(events, "two")
    assert took is not None
    # What the server received from the old leader since: at most the one request that was half sent when it
    # was stopped, and that is refused: it is incomplete, or names a version of the past.
    late = [e for e in writes(events, "one") if e.stage_timestamp > took.request_received_timestamp]
    assert len(late) <= 1
    for event in late:
        if event.request_object is None:  # its body never came, so there was nothing to do
            assert event.response_status.code >= 400
        else:
            assert event.request_object["metadata"]["resourceVersion"]
            assert event.response_status.code == 409
    # And the work itself went on without a gap or a repetition.
    done = sum(e.response_status.code == 200 for name in ("one", "two") for e in writes(events, name))
    work = await client.get(LEASES, WORK, namespace)
    assert work.spec.lease_transitions is not None
    assert work.spec.lease_transitions >= done
