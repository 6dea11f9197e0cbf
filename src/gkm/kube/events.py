"""Events (events.k8s.io/v1): short messages about an object, for people who run ``kubectl describe``.

Telling one never waits and never fails a reconcile: it is queued, aggregated, sent in the background, and
dropped (counted in a metric) when the API server does not want it. So nothing may depend on an event.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple, NoReturn

from gkm.kube.aggregation import AggregationTiming, Aggregator, Report
from gkm.kube.client import Client
from gkm.kube.errors import KubeError, NotFoundError
from gkm.kube.objects import KubeObject, PartialObject
from gkm.kube.resources import Resource

EVENTS = Resource(PartialObject, "events.k8s.io", "v1", "Event", "events")

# Limits of the API server's validation (k8s.io/kubernetes pkg/apis/core/validation/events.go), in bytes.
_LONGEST_NOTE = 1024
_LONGEST_WORD = 128

_log = logging.getLogger(__name__)


class Type(StrEnum):
    """Whether someone should look."""

    NORMAL = "Normal"
    WARNING = "Warning"


class _Event(NamedTuple):
    """What makes two events the same."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    type: Type
    reason: str
    action: str
    note: str


class EventRecorder:
    """Tells events as `controller` (``example.com/name``), one process of which is `instance`.

    `run` sends them; until then, and while the server is slow, up to `backlog` wait. `dropped` is told the
    reason of each that is not sent.
    """

    def __init__(
        self,
        client: Client,
        *,
        controller: str,
        instance: str,
        timing: AggregationTiming | None = None,
        backlog: int = 1000,
        dropped: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._controller = controller
        self._instance = instance[:_LONGEST_WORD]
        self._dropped = dropped
        self._clock = clock
        self._aggregator: Aggregator[_Event] = Aggregator(timing)
        self._queue: asyncio.Queue[tuple[_Event, Report, str]] = asyncio.Queue(backlog)

    def event(
        self,
        resource: Resource[Any],
        regarding: KubeObject,
        type: Type,  # noqa: A002  the API's word
        reason: str,
        note: str,
        *,
        action: str = "Reconcile",
    ) -> None:
        """Tell that `reason` (CamelCase, stable) happened to `regarding`, an object of `resource`.

        `note` is for people; keep what changes every time (times, counters) out of it, or it is never the
        same.
        """
        metadata = regarding.metadata
        event = _Event(
            resource.api_version,
            resource.kind,
            metadata.namespace or "",
            metadata.name or "",
            metadata.uid or "",
            type,
            reason[:_LONGEST_WORD],
            action[:_LONGEST_WORD],
            note.encode()[:_LONGEST_NOTE].decode(errors="ignore"),
        )
        # client-go's scheme: the object's name and the time, unique enough and readable.
        name = f"{event.name[:200]}.{time.time_ns():x}"
        report = self._aggregator.happened(event, event[:5], name, self._clock())
        if report is None:
            self._dropped("aggregated")
            return
        try:
            self._queue.put_nowait((event, report, _now()))
        except asyncio.QueueFull:
            self._dropped("backlog")

    async def run(self) -> NoReturn:
        """Send events until cancelled."""
        while True:
            event, report, when = await self._queue.get()
            try:
                await self._send(event, report, when)
            except KubeError as error:
                self._dropped(error.reason)
                _log.info("event %s about %s %s not sent: %s", event.reason, event.kind, event.name, error)
            finally:
                self._queue.task_done()

    async def flush(self, seconds: float) -> None:
        """Wait until what was told is sent, at most `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._queue.join()
        except TimeoutError:
            _log.info("%d events not sent before the end", self._queue.qsize())

    async def _send(self, event: _Event, report: Report, when: str) -> None:
        # An event about a cluster-scoped object lies in "default" (client-go, tools/events).
        namespace = event.namespace or "default"
        if report.count > 1:
            body = {"series": {"count": report.count, "lastObservedTime": when}}
            try:
                await self._client.patch(EVENTS, report.name, body, namespace)
            except NotFoundError:
                # The server keeps events for an hour.
                self._aggregator.forget(event)
            else:
                return
        await self._client.create(
            EVENTS,
            {
                "metadata": {"name": report.name, "namespace": namespace},
                "eventTime": when,
                "reportingController": self._controller,
                "reportingInstance": self._instance,
                "action": event.action,
                "reason": event.reason,
                "type": event.type,
                "note": event.note,
                "regarding": {
                    "apiVersion": event.api_version,
                    "kind": event.kind,
                    "namespace": event.namespace,
                    "name": event.name,
                    "uid": event.uid,
                },
            },
        )


def _now() -> str:
    """MicroTime, as `eventTime` wants it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
