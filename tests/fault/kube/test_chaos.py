"""Everything at once: random edits, random faults, a reconciler that fails; in the end all of it came true.

Twenty fixed seeds and a random one. A failing seed prints itself; run it again by adding it to `SEEDS`.
"""

import asyncio
import os
import random
from collections import Counter

import pytest

from gkm.base.backoff import Backoff
from gkm.kube.bucket import TokenBucket
from gkm.kube.controller import Controller
from gkm.kube.mapping import itself
from gkm.kube.objects import ConfigMap, Key
from gkm.kube.progress import Timing
from gkm.kube.queue import WorkQueue
from gkm.kube.reconcile import Result
from gkm.kube.reflector import Reflector
from gkm.kube.resources import CONFIG_MAPS
from support.fault_apiserver import Asked, Fault, FaultServer
from support.waiting import until

# All workers of a run must name the same tests: what names the run is their one source of chance.
_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID") or os.urandom(8)
SEEDS = [*range(20), random.Random(_RUN).randrange(20, 1 << 32)]
EDITS = 250
KINDS = ("cut", "reset", "stall", "close", "gone", "garbage", "silent-end", "status")
TIMING = Timing(
    read_timeout=0.2,
    watch_shortest=1,
    watch_longest=1,
    hasty=0.001,
    backoff=Backoff(first=0.002, longest=0.02),
)


class Worker:
    """A reconciler that fails now and then, and notices if it works on a key twice at once."""

    def __init__(self, dice: random.Random, reflector: Reflector[ConfigMap]) -> None:
        self.done: dict[Key, str | None] = {}
        self.at_once: Counter[Key] = Counter()
        self.runs = 0
        self._dice = dice
        self._reflector = reflector

    async def reconcile(self, key: Key) -> Result:
        self.runs += 1
        self.at_once[key] += 1
        assert self.at_once[key] == 1, f"{key} is worked on twice at once"
        try:
            await asyncio.sleep(self._dice.random() * 0.004)
            if self._dice.random() < 0.1:
                raise RuntimeError("planned failure")
            obj = self._reflector.store.get(key)
            self.done[key] = obj.metadata.resource_version if obj else None
        finally:
            self.at_once[key] -= 1
        return Result(requeue_after=0.01) if self._dice.random() < 0.05 else Result()


def fault(dice: random.Random, asked: Asked) -> Fault | None:
    if dice.random() < 0.4:
        return None
    kind = dice.choice(KINDS)
    code = dice.choice((410, 500)) if kind == "gone" else dice.choice((401, 403, 404, 410, 429, 500, 503))
    return Fault(kind, after=dice.randrange(30), code=code, plain=dice.random() < 0.3)


async def edit(dice: random.Random, server: FaultServer) -> None:
    for number in range(EDITS):
        name = f"object-{dice.randrange(40)}"
        there = ("configmaps", "ns", name) in server.objects
        if there and dice.random() < 0.3:
            server.remove(name)
        else:
            server.put(name, data={"group": f"group-{dice.randrange(5)}", "edit": str(number)})
        if dice.random() < 0.02:
            server.compact()
        if dice.random() < 0.3:
            await asyncio.sleep(dice.random() * 0.008)


@pytest.mark.parametrize("seed", SEEDS)
async def test_store_and_work_come_true(seed: int) -> None:
    print(f"seed {seed}")
    dice = random.Random(seed)
    async with FaultServer().serve() as server, server.connect() as client, asyncio.TaskGroup() as group:
        server.chance = lambda asked: fault(dice, asked)
        server.streams_lists = dice.random() < 0.7
        streaming = dice.random() < 0.5
        server.page_size = dice.choice((3, 500))
        reflector = Reflector(client, CONFIG_MAPS, streaming=streaming, timing=TIMING)
        reflector.store.add_index("group", lambda obj: [(obj.data or {})["group"]])
        worker = Worker(dice, reflector)
        queue: WorkQueue[Key] = WorkQueue(
            backoff=Backoff(first=0.002, longest=0.02), bucket=TokenBucket(rate=1e6)
        )
        controller = Controller("chaos", worker.reconcile, workers=4, queue=queue)
        controller.watches(reflector, itself)
        tasks = [group.create_task(reflector.run()), group.create_task(controller.run())]
        await edit(dice, server)
        server.chance = lambda _: None

        def true() -> bool:
            truth = {Key(*name.split("/")): version for name, (_, version) in server.truth().items()}
            stored = {key: reflector.store.get(key) for key in reflector.store.keys()}  # noqa: SIM118  a store is no mapping
            return (
                {key: obj.metadata.resource_version for key, obj in stored.items() if obj} == truth
                and {key: version for key, version in worker.done.items() if version} == truth
                and len(queue) == 0
            )

        await until(true, f"store, work and truth agree (seed {seed})")
        for number in range(5):
            indexed = {o.metadata.name for o in reflector.store.by_index("group", f"group-{number}")}
            assert indexed == {
                name
                for (_, _, name), obj in server.objects.items()
                if obj["data"]["group"] == f"group-{number}"
            }
        assert worker.runs > len(worker.done), "the planned failures did not happen"
        for task in tasks:
            task.cancel()
    assert max(worker.at_once.values()) == 0
