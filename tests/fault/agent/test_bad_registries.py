"""Registries that cut, lie, hang and hide, met by a real gkm-extract: a stable reason, and nothing left behind."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gkm.agent.child import Extractor
from gkm.agent.confinement import Identity
from gkm.agent.errors import ExtractionFailedError
from gkm.agent.messages import ExtractRequest
from gkm.agent.stage import stage
from gkm.store.store import Store
from support import archives
from support.fault_registry import REPOSITORY, FaultRegistry, fault_registry
from support.fault_server import Reply, answer, cut, hang_up
from support.images import SmallImage, small_image
from support.parts import REPOSITORY as CHECKOUT
from support.processes import running_as
from support.waiting import until

pytestmark = pytest.mark.root


@pytest.fixture
async def faulty() -> AsyncIterator[FaultRegistry]:
    async with fault_registry() as registry:
        yield registry


@pytest.fixture
def store(open_path: Path) -> Store:
    return Store.open(open_path / "store")


def add(registry: FaultRegistry, archive: bytes) -> SmallImage:
    """An image with one plain tar layer."""
    image = small_image(archive)
    registry.add(image)
    return image


def layer_path(image: SmallImage) -> str:
    return image.layers[0].digest


async def failure(registry: FaultRegistry, image: SmallImage, store: Store, child: Identity) -> str:
    """The reason for which staging fails; nothing may be left of it."""
    name = f"{registry.host}/{REPOSITORY}@{image.digest}"
    with pytest.raises(ExtractionFailedError) as failed:
        await stage(
            store.layout,
            Extractor(child),
            image.digest,
            lambda path: ExtractRequest(directory=str(path), image=name),
            lambda _: None,
        )
    assert store.tree(image.digest) is None
    assert nothing_left(store)
    assert str(failed.value)
    return failed.value.reason


def nothing_left(store: Store) -> bool:
    strays = [p for p in store.layout.trash.iterdir() if p.name != ".lock"]
    return not strays and not list(store.layout.staging.iterdir())


def _plain() -> bytes:
    return archives.file("io.triton.cache/k/add.json", b"{}" * 600) + archives.END


FAULTS: dict[str, tuple[Callable[[bytes], Callable[[object], Reply]], str]] = {
    "cuts every answer": (lambda data: lambda _: cut(200, data, len(data) // 2), "Unavailable"),
    "hangs up": (lambda _: lambda _: hang_up(), "Unavailable"),
    "serves other bytes": (lambda data: lambda _: answer(200, data.replace(b"{}", b"[]")), "DigestMismatch"),
    "serves more": (lambda data: lambda _: answer(200, data + b"x"), "SizeMismatch"),
    "has lost the layer": (lambda _: lambda _: answer(404), "NotFound"),
    "refuses": (lambda _: lambda _: answer(403), "Unauthorized"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_bad_layer_has_a_reason(
    faulty: FaultRegistry, store: Store, child: Identity, fault: str
) -> None:
    image = add(faulty, _plain())
    make, reason = FAULTS[fault]
    faulty.always("GET", layer_path(image), make(image.blobs[layer_path(image)]))
    assert await failure(faulty, image, store, child) == reason


async def test_a_hostile_archive_is_refused_in_the_child(
    faulty: FaultRegistry, store: Store, child: Identity
) -> None:
    image = add(faulty, archives.file("../../escape", b"x") + archives.END)
    assert await failure(faulty, image, store, child) == "PathTraversal"


async def test_a_registry_that_is_down_is_unavailable(
    faulty: FaultRegistry, store: Store, child: Identity
) -> None:
    image = add(faulty, _plain())
    assert faulty.server is not None
    faulty.server.host = "127.0.0.1:1"
    assert await failure(faulty, image, store, child) == "Unavailable"


async def test_cancelling_ends_the_child_and_leaves_nothing(
    faulty: FaultRegistry, store: Store, child: Identity
) -> None:
    image, asked = add(faulty, _plain()), asyncio.Event()
    faulty.always("GET", layer_path(image), lambda _: _hang(image, asked))
    name = f"{faulty.host}/{REPOSITORY}@{image.digest}"
    staging = asyncio.create_task(
        stage(
            store.layout,
            Extractor(child),
            image.digest,
            lambda path: ExtractRequest(directory=str(path), image=name),
            lambda _: None,
        )
    )
    await asked.wait()
    staging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await staging
    assert nothing_left(store)
    assert running_as(child.uid) == []


AGENT = """
import asyncio, sys
from pathlib import Path
from gkm.agent.child import Extractor
from gkm.agent.confinement import Identity
from gkm.agent.messages import ExtractRequest
from gkm.agent.stage import stage
from gkm.store.store import Store
root, image, uid, gid = sys.argv[1:]
asyncio.run(stage(Store.open(Path(root)).layout, Extractor(Identity(int(uid), int(gid))), image.partition("@")[2],
    lambda path: ExtractRequest(directory=str(path), image=image), lambda _: None))
"""


async def test_the_child_of_a_killed_agent_dies_and_the_next_agent_clears_up(
    faulty: FaultRegistry, store: Store, child: Identity
) -> None:
    image, asked = add(faulty, _plain()), asyncio.Event()
    faulty.always("GET", layer_path(image), lambda _: _hang(image, asked))
    name = f"{faulty.host}/{REPOSITORY}@{image.digest}"
    agent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", AGENT, str(store.root), name, str(child.uid), str(child.gid)),
        cwd=CHECKOUT,
    )
    await asked.wait()
    assert running_as(child.uid) != []
    agent.send_signal(signal.SIGKILL)
    await agent.wait()
    await until(lambda: running_as(child.uid) == [], "the child is dead")
    assert not nothing_left(store)
    assert nothing_left(Store.open(store.root))


def _hang(image: SmallImage, asked: asyncio.Event) -> Reply:
    # Another length than the layer's would be refused at once.
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {image.layers[0].size}\r\n\r\n".encode()

    async def reply(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        await writer.drain()
        asked.set()
        await asyncio.Event().wait()

    return reply
