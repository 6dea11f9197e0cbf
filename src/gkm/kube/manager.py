"""The manager: runs reflectors, controllers and whatever belongs to them, and ends them in the right order.

Start: health server, reflectors, leader election; with the lease, or without one to hold, the controllers,
which wait for their stores. Ready means: every store was complete once and the API server does not refuse us
now. A process that waits for the lease is ready too, its webhooks serve.

End, on SIGTERM, SIGINT or `stop`: not ready any more; no reconcile begins; those under way get `drain`
seconds, then they are cancelled; events are sent; the lease is given up; the rest ends. A second signal
cancels at once. A lost lease, or a part that ends or fails on its own, ends everything with its error.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry

from gkm.base.errors import UsageError
from gkm.kube.client import Client
from gkm.kube.controller import Controller
from gkm.kube.errors import KubeError
from gkm.kube.events import EventRecorder
from gkm.kube.health import HealthServer
from gkm.kube.leader import LeaderElector
from gkm.kube.metrics import ControllerMeter, Metrics, QueueMeter, ReflectorMeter
from gkm.kube.objects import Key, KubeObject
from gkm.kube.progress import Timing
from gkm.kube.queue import WorkQueue
from gkm.kube.reconcile import Reconciler
from gkm.kube.reflector import Reflector
from gkm.kube.resources import Resource

T = TypeVar("T", bound=KubeObject)

_log = logging.getLogger(__name__)


class Manager:
    """Owns the parts that share one client. Add parts, then `run`, once.

    With `elector` the controllers run only while it leads. `health` is started and given the readiness
    checks; `recorder` is run, and flushed at the end. `drain` in seconds.
    """

    def __init__(
        self,
        client: Client,
        *,
        metrics: Metrics | None = None,
        elector: LeaderElector | None = None,
        health: HealthServer | None = None,
        recorder: EventRecorder | None = None,
        drain: float = 30.0,
        timing: Timing | None = None,
    ) -> None:
        self.client = client
        self._metrics = metrics or Metrics(CollectorRegistry())
        self._elector = elector
        self._health = health
        self._recorder = recorder
        self._drain = drain
        self._timing = timing
        self._reflectors: dict[tuple[Any, ...], Reflector[Any]] = {}
        self._controllers: list[Controller] = []
        self._services: list[tuple[str, Callable[[], Awaitable[None]]]] = []
        self._stopping = asyncio.Event()
        self._started = False

    def reflect(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        streaming: bool = False,
    ) -> Reflector[T]:
        """The reflector of just these objects; asked for twice, it is the first one, with one watch.

        Raises:
            UsageError: the manager runs already.
        """
        self._check_not_started()
        key = (resource, namespace, labels, fields)
        if key not in self._reflectors:
            self._reflectors[key] = Reflector(
                self.client,
                resource,
                namespace,
                labels=labels,
                fields=fields,
                streaming=streaming,
                timing=self._timing,
                metrics=ReflectorMeter(self._metrics, str(resource)),
            )
        return self._reflectors[key]

    def controller(
        self, name: str, reconcile: Reconciler, *, workers: int = 1, timeout: float = 60.0
    ) -> Controller:
        """A controller that this manager runs, with metrics; tell it what it watches.

        Raises:
            UsageError: the manager runs already, or the name is taken.
        """
        self._check_not_started()
        if any(other.name == name for other in self._controllers):
            raise UsageError(f"there is a controller {name!r} already")
        meter = QueueMeter(self._metrics, name)
        queue: WorkQueue[Key] = WorkQueue(metrics=meter)
        meter.of(queue)
        made = Controller(
            name,
            reconcile,
            workers=workers,
            timeout=timeout,
            queue=queue,
            metrics=ControllerMeter(self._metrics, name, workers),
        )
        self._controllers.append(made)
        return made

    def add_service(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run `run` from start to end, whoever leads (a webhook server, say); cancelled at the end.

        Raises:
            UsageError: the manager runs already.
        """
        self._check_not_started()
        self._services.append((name, run))

    def not_ready(self) -> str:
        """Why this process is not ready; empty if it is."""
        if self._stopping.is_set():
            return "stopping"
        problems = [
            f"{reflector}: {reflector.problem or 'not complete yet'}"
            for reflector in self._reflectors.values()
            if not reflector.synced.is_set() or reflector.refused
        ]
        return "; ".join(problems)

    def stop(self) -> None:
        """Begin the end."""
        self._stopping.set()

    async def run(self, *, signals: bool = True) -> None:
        """Run until the end; returns after an orderly one. `signals`: end on SIGTERM and SIGINT.

        Raises:
            LeadershipLostError: the lease was lost; exit with a failure, so that the process is started anew.
        """
        self._check_not_started()
        self._started = True
        try:
            async with contextlib.AsyncExitStack() as stack:
                if signals:
                    stack.enter_context(self._signals())
                if self._health is not None:
                    self._health.checks["manager"] = self.not_ready
                    await stack.enter_async_context(self._health)
                await self._run_parts()
        except BaseExceptionGroup as group:
            # Parts run in task groups; whoever started the manager wants the one error itself.
            error: BaseException = group
            while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
                error = error.exceptions[0]
            raise error from None

    async def _run_parts(self) -> None:
        async with asyncio.TaskGroup() as group:
            background: list[asyncio.Task[None]] = [
                group.create_task(reflector.run(), name=str(reflector))
                for reflector in self._reflectors.values()
            ]
            background += [group.create_task(_endless(name, run), name=name) for name, run in self._services]
            if self._recorder is not None:
                background.append(group.create_task(self._recorder.run(), name="events"))
            election = group.create_task(self._elector.run(), name="election") if self._elector else None
            if await self._may_lead():
                await self._lead()
            if self._recorder is not None:
                await self._recorder.flush(self._drain)
            if self._elector is not None and election is not None:
                self._elector.stop()
                await election
            for task in background:
                task.cancel()

    async def _may_lead(self) -> bool:
        """Wait for the lease, where there is one; whether it came before the end."""
        if self._elector is not None:
            await _first(self._elector.elected, self._stopping)
        return not self._stopping.is_set()

    async def _lead(self) -> None:
        """Run the controllers until the end. A lost lease cancels this, through the task group around it."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(controller.run(), name=controller.name) for controller in self._controllers
            ]
            await self._stopping.wait()
            for controller in self._controllers:
                controller.stop()
            if tasks:
                _, late = await asyncio.wait(tasks, timeout=self._drain)
                for task in late:
                    _log.warning(
                        "controller %s: still at work after %s s, cancelled", task.get_name(), self._drain
                    )
                    task.cancel()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop, main = asyncio.get_running_loop(), asyncio.current_task()
        assert main is not None

        def on_signal(number: signal.Signals) -> None:
            if self._stopping.is_set():
                _log.warning("%s again: ending at once", number.name)
                main.cancel()
            else:
                _log.info("%s: ending", number.name)
                self.stop()

        handled = (signal.SIGTERM, signal.SIGINT)
        for number in handled:
            loop.add_signal_handler(number, on_signal, number)
        try:
            yield
        finally:
            for number in handled:
                loop.remove_signal_handler(number)

    def _check_not_started(self) -> None:
        if self._started:
            raise UsageError("the manager runs already: add every part before")


async def _endless(name: str, run: Callable[[], Awaitable[None]]) -> None:
    await run()
    raise KubeError(f"the service {name!r} ended on its own")


async def _first(*events: asyncio.Event) -> None:
    """Return once one of `events` is set."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
