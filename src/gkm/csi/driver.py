"""The driver as a whole: sockets, registration, and the order in which they come and go."""

import asyncio
import logging
from collections.abc import Callable
from typing import NoReturn

from gkm.api.names import CSI_DRIVER
from gkm.base.errors import GKMError
from gkm.csi.identity import IdentityService
from gkm.csi.machine import Machine
from gkm.csi.node import NodeService
from gkm.csi.ports import Caches, Events, Pods, Trees, Usage
from gkm.csi.settings import Settings
from gkm.csi.views import Views
from gkm.kubelet.registration import Plugin, Registration, registration_socket
from gkm.kubelet.server import SocketServer
from gkm.store.store import Store

_CONCURRENT = 128
"""Calls in flight; publishes that wait are fewer (`Settings.waiting_calls`), so an unpublish always has a slot."""
_TIDY_SECONDS = 60.0

_log = logging.getLogger(__name__)


class Driver:
    """The CSI driver of one node. `run` it; `machine` and `registered` are for health and reports."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        *,
        caches: Caches,
        trees: Trees,
        pods: Pods,
        events: Events,
        usage: Usage,
        restored: Callable[[], None] = lambda: None,
    ) -> None:
        """`restored` is called once `usage` was told of every view that outlived an earlier agent."""
        self._tell_restored = restored
        views = Views(store, settings.place)
        self.machine = Machine(views, usage, busy_seconds=settings.busy_seconds)
        self._restored = False
        node = NodeService(
            settings, views, self.machine, caches=caches, trees=trees, pods=pods, events=events
        )
        identity = IdentityService(lambda: self._restored)
        self._calls = SocketServer(settings.socket, [identity.service, node.service], concurrent=_CONCURRENT)
        self._registration = Registration(Plugin("CSIPlugin", CSI_DRIVER, settings.socket, ["1.0.0"]))
        self._announcement = SocketServer(
            registration_socket(settings.kubelet_root, CSI_DRIVER), [self._registration.service]
        )

    @property
    def registered(self) -> bool:
        """Whether kubelet sends its calls here."""
        return self._registration.registered

    async def run(self) -> NoReturn:
        """Serve until cancelled; what is mounted stays mounted, for the pods run on.

        Raises:
            SocketError: a socket cannot be served, another agent's for instance.
            StoreError: what an earlier agent left cannot be taken up.
        """
        await self.machine.restore()
        self._restored = True
        self._tell_restored()
        try:
            await self._calls.start()
            # Kubelet calls as soon as it sees this one.
            await self._announcement.start()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._calls.keep())
                tasks.create_task(self._announcement.keep())
                tasks.create_task(self._tidy())
            raise AssertionError("the tasks run until cancelled")
        finally:
            await self._announcement.stop()
            await self._calls.stop()
            await self.machine.drain()

    async def _tidy(self) -> NoReturn:
        while True:
            await asyncio.sleep(_TIDY_SECONDS)
            try:
                await self.machine.tidy()
            except GKMError as error:
                _log.warning("leftovers stay for now: %s", error)
