"""The leader elector: holds a Lease for this process, and a fence open for as long as it may act.

`election` decides; this sends. A candidate makes no requests while it waits: a watch tells it of renewals,
and before it takes the Lease it reads it once more. Its client must not be fenced, and should not retry: an
answer that comes late is worth nothing.
"""

import asyncio
import contextlib
import logging
import math
import os
import socket
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

import msgspec

from gkm.kube.client import Client
from gkm.kube.election import Election, LeaseTiming, Move
from gkm.kube.errors import ConflictError, KubeError, LeadershipLostError, NotFoundError
from gkm.kube.fence import Fence, boot_clock
from gkm.kube.objects import Lease, LeaseSpec, ObjectMeta
from gkm.kube.reflector import Reflector
from gkm.kube.resources import LEASES
from gkm.kube.store import Change

_log = logging.getLogger(__name__)


class LeaderMetrics(Protocol):
    """What an elector measures."""

    def leading(self, leading: bool) -> None:
        """This process leads, or not (any more)."""


def own_identity() -> str:
    """A name for this process that no other has, nor this one after a restart."""
    return f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:12]}"


class LeaderElector:
    """Competes for the Lease `name` in `namespace`; while this process leads, `fence` is open."""

    def __init__(
        self,
        client: Client,
        fence: Fence,
        *,
        name: str,
        namespace: str,
        identity: str = "",
        timing: LeaseTiming | None = None,
        metrics: LeaderMetrics | None = None,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        self.identity = identity or own_identity()
        self.elected = asyncio.Event()
        """Set when this process has become the leader."""
        self._client = client
        self._fence = fence
        self._name = name
        self._namespace = namespace
        self._timing = timing or LeaseTiming()
        self._metrics = metrics
        self._clock = clock
        self._election = Election(self.identity, self._timing)
        self._wake = asyncio.Event()
        self._doubt = False
        self._stopping = False

    async def run(self) -> None:
        """Compete for the Lease, then hold it, until `stop`; then give it up. To be called once.

        Raises:
            LeadershipLostError: the Lease was held and is not any more. The process must end: what it began
                as
                the leader cannot be told apart from what it may still do.
        """
        watch = Reflector(
            self._client, LEASES, self._namespace, fields=f"metadata.name={self._name}", streaming=True
        )
        watch.subscribe(self._on_change)
        watching = asyncio.create_task(watch.run())
        try:
            while not self._stopping:
                await self._step()
            self._fence.close()
            await self._release()
        finally:
            self._fence.close()
            if self._metrics:
                self._metrics.leading(False)
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    def stop(self) -> None:
        """Have `run` give the Lease up and return. Only once all that acts as the leader has ended."""
        self._stopping = True
        self._wake.set()

    def _on_change(self, change: Change[Lease]) -> None:
        if not self._election.leading:
            self._election.saw(change.new, self._clock())
        elif change.new is None or change.new.spec.holder_identity != self.identity:
            # Perhaps just an event from before we took it: only an answer to a request of ours is certain.
            self._doubt = True
        else:
            return
        self._wake.set()

    async def _step(self) -> None:
        now = self._clock()
        match self._election.move(now):
            case Move.STEP_DOWN:
                raise LeadershipLostError(
                    f"lease {self._name}: not renewed in time, or held by {self._holder}"
                )
            case Move.WAIT if not self._doubt:
                await self._pause(self._election.wait(now))
            case _:
                try:
                    # Bounded: a connection that went silent must leave time for another try.
                    async with asyncio.timeout(2 * self._timing.retry):
                        await (self._renew() if self._election.leading else self._take())
                except (KubeError, TimeoutError) as error:
                    _log.info("lease %s: %r; next try in %s s", self._name, error, self._timing.retry)
                    await self._pause(self._timing.retry)

    async def _pause(self, seconds: float) -> None:
        self._wake.clear()
        if self._stopping:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    @property
    def _holder(self) -> str:
        lease = self._election.lease
        return (lease.spec.holder_identity if lease else None) or "no one"

    async def _take(self) -> None:
        """Become the leader, if the Lease is still free when read again."""
        found = await self._look()
        if self._election.move(self._clock()) is not Move.TAKE:
            return
        sent = self._clock()
        if found is None:
            meta = ObjectMeta(name=self._name, namespace=self._namespace)
            taken = await self._client.create(LEASES, Lease(metadata=meta, spec=self._spec()))
        else:
            taken = await self._patch(found, self._spec())
        self._election.wrote(taken, sent, self._clock())
        self._fence.open_until(self._election.until)
        self._doubt = False
        self.elected.set()
        if self._metrics:
            self._metrics.leading(True)
        _log.info("lease %s taken by %s", self._name, self.identity)

    async def _renew(self) -> None:
        lease = self._election.lease
        assert lease is not None
        sent = self._clock()
        try:
            renewed = await self._patch(lease, self._spec())
        except (ConflictError, NotFoundError):
            # Taken, deleted, or just written by someone else (a label, say) or by a request of ours that
            # seemed lost. In the latter cases the next try renews it.
            await self._look()
            return
        self._doubt = False
        self._election.wrote(renewed, sent, self._clock())
        self._fence.open_until(self._election.until)

    async def _look(self) -> Lease | None:
        """The Lease as the server has it now, made known to the election."""
        try:
            found: Lease | None = await self._client.get(LEASES, self._name, self._namespace)
        except NotFoundError:
            found = None
        self._election.saw(found, self._clock())
        return found

    async def _release(self) -> None:
        """Let others take the Lease at once; if that fails it runs out by itself."""
        if not self._election.leading:
            return
        # client-go's form: an empty name, and a duration because the field may not be zero.
        spec = LeaseSpec(holder_identity="", lease_duration_seconds=1, renew_time=_now())
        try:
            async with asyncio.timeout(self._timing.renew):
                found = await self._look()
                if found is not None and self._election.ours:
                    await self._patch(found, spec)
            _log.info("lease %s released", self._name)
        except (KubeError, TimeoutError) as error:
            _log.warning("lease %s not released, it will run out: %r", self._name, error)

    def _spec(self) -> LeaseSpec:
        """What to write in order to take or renew the Lease; a field left out stays as it is."""
        old, now = self._election.lease, _now()
        spec = LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=math.ceil(self._timing.lease),
            renew_time=now,
        )
        if self._election.ours:
            return spec
        transitions = (old.spec.lease_transitions or 0) + 1 if old else 0
        return msgspec.structs.replace(spec, acquire_time=now, lease_transitions=transitions)

    async def _patch(self, lease: Lease, spec: LeaseSpec) -> Lease:
        body = {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": spec}
        return await self._client.patch(LEASES, self._name, body, self._namespace)


def _now() -> str:
    """MicroTime, for people who look at the Lease."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
