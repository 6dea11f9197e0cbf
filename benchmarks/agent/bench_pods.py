"""Pods that say when they began: started, timed by one watch, asked what they saw, and removed."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from bench_waiting import SECONDS, until

from devcluster.images import BUSYBOX
from gkm.kube.client import Client
from gkm.kube.objects import ObjectMeta, Slim
from gkm.kube.resources import PODS
from gkm.kube.watch import open_watch

MOUNT = "/cache"

# The kernel's clock in the pod's first instruction; then how many entries it finds, and how many of them name
# their files where they stand. One line, so that the log is there or not.
_LOOK = f"""
began=$(cut -d' ' -f1 /proc/uptime)
found=$(find {MOUNT} -name '__grp__*' | wc -l)
fitting=$(find {MOUNT} -name '__grp__*' -exec grep -l '"{MOUNT}/' {{}} + | wc -l)
echo "$began $found $fitting"
exec sleep 100000
"""


class _State(Slim, frozen=True):
    running: dict[str, Any] | None = None


class _ContainerStatus(Slim, frozen=True):
    state: _State = _State()


class _Status(Slim, frozen=True):
    container_statuses: tuple[_ContainerStatus, ...] = ()


class _Pod(Slim, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    status: _Status = _Status()

    @property
    def runs(self) -> bool:
        """Whether every container's status says Running."""
        states = self.status.container_statuses
        return bool(states) and all(status.state.running is not None for status in states)


_PODS = PODS.read_as(_Pod)


class Start(msgspec.Struct, frozen=True):
    """How one pod started: seconds from the moment its creation was asked for."""

    running: float
    """Until the API server's watch showed its container Running."""
    began: float
    """Until its first instruction, by the kernel's clock (which counts hundredths)."""
    found: int
    """Entries it saw."""
    fitting: int
    """Those of them that were relocated to where it saw them."""


def pod(
    name: str, namespace: str, volume: dict[str, Any], *, command: list[str] | None = None
) -> dict[str, Any]:
    """A pod with `volume` at `MOUNT`."""
    container = {
        "name": "workload",
        "image": BUSYBOX,
        "imagePullPolicy": "IfNotPresent",
        "command": command or ["sh", "-c", _LOOK],
        "volumeMounts": [{"name": "cache", "mountPath": MOUNT}],
    }
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [container],
            "volumes": [{"name": "cache", **volume}],
        },
    }


class Stopwatch:
    """Starts pods of one namespace one at a time; `timing` makes one."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self.namespace = namespace
        self._ran: dict[str, float] = {}
        self._gone: set[str] = set()
        self._news = asyncio.Condition()

    async def listen(self) -> None:
        """Follow the namespace's pods until cancelled."""
        watch = open_watch(self._client.connection, _PODS, self.namespace, {}, read_timeout=600)
        async with watch as batches:
            async for events in batches:
                now = time.clock_gettime(time.CLOCK_BOOTTIME)
                async with self._news:
                    for event in events:
                        found = _PODS.decode(bytes(event.object))
                        if event.type == "DELETED":
                            self._gone.add(found.metadata.uid)
                        elif found.runs:
                            self._ran.setdefault(found.metadata.uid, now)
                    self._news.notify_all()
        raise RuntimeError("the watch of the benchmark's pods ended")

    async def start(self, body: dict[str, Any]) -> Start:
        """Create the pod, wait until it runs and has looked around, and remove it."""
        asked = time.clock_gettime(time.CLOCK_BOOTTIME)
        uid = await self.create(body)
        ran = self._ran[uid]
        try:
            began, found, fitting = (await self._log(body["metadata"]["name"])).split()
        finally:
            await self.remove(body, uid)
        return Start(ran - asked, float(began) - asked, int(found), int(fitting))

    async def create(self, body: dict[str, Any]) -> str:
        """Create the pod and wait until it runs; its UID."""
        uid = (await self._client.create(_PODS, body)).metadata.uid
        await self._until(lambda: uid in self._ran, f"{body['metadata']['name']} runs")
        return uid

    async def remove(self, body: dict[str, Any], uid: str) -> None:
        """Delete the pod and wait until kubelet let go of it."""
        await self._client.delete(_PODS, body["metadata"]["name"], self.namespace)
        await self._until(lambda: uid in self._gone, f"{body['metadata']['name']} is gone")

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(SECONDS), self._news:
                await self._news.wait_for(condition)
        except TimeoutError:
            raise SystemExit(f"did not come true within {SECONDS:.0f} s: {what}") from None

    async def _log(self, name: str) -> str:
        path = _PODS.path(name, self.namespace, "log")

        async def read() -> str:
            return (await self._client.connection.send("GET", path, accept="*/*")).decode()

        return await until(read, bool, f"{name} says what it saw")


@contextlib.asynccontextmanager
async def timing(client: Client, namespace: str) -> AsyncIterator[Stopwatch]:
    """A stopwatch for pods of `namespace`, which exists."""
    stopwatch = Stopwatch(client, namespace)
    async with asyncio.TaskGroup() as tasks:
        listening = tasks.create_task(stopwatch.listen())
        try:
            yield stopwatch
        finally:
            listening.cancel()
