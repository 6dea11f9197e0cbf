"""A child that is kept ready: used once, replaced, and gone when it is not wanted."""

import asyncio
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gkm.agent.child import PROGRAM, Extractor
from gkm.agent.confinement import Identity
from gkm.agent.errors import ExtractionCrashedError
from gkm.agent.messages import ExtractRequest
from gkm.agent.spare import Spare
from gkm.agent.stage import stage
from gkm.store.store import Store
from support.cached_images import publish
from support.registry import RunningRegistry
from support.waiting import until


class Starts:
    """Starts real processes, which do nothing, and remembers them."""

    def __init__(self) -> None:
        self.children: list[Process] = []
        self.failing = False

    async def __call__(self) -> Process:
        if self.failing:
            raise ExtractionCrashedError("gkm-extract cannot be started")
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(1000)")
        self.children.append(child)
        return child

    @property
    def alive(self) -> list[int]:
        return [child.pid for child in self.children if child.returncode is None]


@pytest.fixture
def starts() -> Starts:
    return Starts()


@pytest.fixture
async def spare(starts: Starts) -> AsyncIterator[Spare]:
    made = Spare(starts, after=0.0)
    yield made
    for child in starts.children:
        if child.returncode is None:
            child.kill()
            await child.wait()
    await made.aclose()


async def test_it_is_taken_once_and_made_up_for_when_wanted_again(spare: Spare, starts: Starts) -> None:
    assert spare.take() is None
    for _ in range(3):
        spare.keep(wanted=True)
    await until(lambda: starts.alive, "it runs")
    await asyncio.sleep(0)
    child = spare.take()
    assert child is starts.children[0]
    assert spare.take() is None
    spare.keep(wanted=True)
    await until(lambda: len(starts.alive) == 2, "another runs")
    assert len(starts.children) == 2


async def test_it_ends_when_it_is_wanted_no_longer(spare: Spare, starts: Starts) -> None:
    spare.keep(wanted=True)
    await until(lambda: starts.alive, "it runs")
    spare.keep(wanted=False)
    assert spare.take() is None
    await until(lambda: not starts.alive, "it ended")
    spare.keep(wanted=True)
    spare.keep(wanted=False)
    await spare.aclose()
    assert starts.alive == []


async def test_one_that_died_is_not_given_out_but_replaced(spare: Spare, starts: Starts) -> None:
    spare.keep(wanted=True)
    await until(lambda: starts.alive, "it runs")
    starts.children[0].send_signal(signal.SIGKILL)
    await starts.children[0].wait()
    assert spare.take() is None
    spare.keep(wanted=True)
    await until(lambda: starts.alive, "another runs")


async def test_one_that_cannot_be_started_is_tried_again_when_wanted_again(
    spare: Spare, starts: Starts
) -> None:
    starts.failing = True
    spare.keep(wanted=True)
    await asyncio.sleep(0.05)
    assert spare.take() is None
    starts.failing = False
    spare.keep(wanted=True)
    await until(lambda: starts.alive, "it runs")


@pytest.mark.root
async def test_staging_uses_the_child_that_is_ready(
    store: Store, registry: RunningRegistry, tmp_path: Path, child: Identity
) -> None:
    started = tmp_path / "started"
    started.touch(0o666)
    # Says who it is when it starts, and becomes gkm-extract.
    note = (
        "import os, sys; open(sys.argv[1], 'a').write(f'{os.getpid()} '); os.execv(sys.argv[2], sys.argv[2:])"
    )
    extractor = Extractor(child, (sys.executable, "-c", note, str(started), *PROGRAM))

    def pids() -> list[int]:
        return [int(line) for line in started.read_text().split()]

    async def bring(which: str) -> str:
        digest = await publish(registry.host, tmp_path, which)
        image = f"{registry.host}/kernels/vector-add@{digest}"
        tree = await stage(
            store.layout,
            extractor,
            digest,
            lambda directory: ExtractRequest(directory=str(directory), image=image),
            lambda _: None,
        )
        return tree.digest

    try:
        extractor.keep_ready(wanted=True)
        await until(pids, "a child is ready")
        assert store.tree(await bring("M")) is not None
        assert len(pids()) == 1
        extractor.keep_ready(wanted=True)
        await until(lambda: len(pids()) == 2, "the next one is ready")
        (_, ready) = pids()
    finally:
        await extractor.aclose()
    assert not Path(f"/proc/{ready}").exists()
    # Without one a child is started for the purpose.
    assert store.tree(await bring("N")) is not None
    assert len(pids()) == 3
