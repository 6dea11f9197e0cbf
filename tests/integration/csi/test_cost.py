"""What a publish touches does not depend on how much its cache holds."""

import asyncio
import os
import sys
from collections import Counter

import pytest

from gkm.csi.machine import Machine
from gkm.csi.views import Views
from gkm.store.bounded import Bounds
from gkm.store.host import Wish
from gkm.store.mode import Mode
from gkm.store.sealed import SealedTree
from support.csi import Trees, Usage
from support.csi_node import Node
from support.views import seal_files, triton_files

pytestmark = pytest.mark.root

ROOT = "/cache"


def touched(node: Node, tree: SealedTree, pod: str) -> Counter[str]:
    """What Python tells of a publish of `tree` (PEP 578): files opened, listed and changed, programs started."""
    target = node.settings.kubelet_root / "pods" / pod / "mount"
    target.parent.mkdir(parents=True)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            events: list[str] = []
            asyncio.run(publish(node, tree, target, events))
            os.write(writing, "\n".join(events).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    assert target.is_mount()
    return Counter(told.split())


async def publish(node: Node, tree: SealedTree, target: os.PathLike[str], events: list[str]) -> None:
    machine = Machine(Views(node.store, node.settings.place), Usage(), busy_seconds=600)
    await machine.restore()
    counting = True

    def heard(event: str, _: object) -> None:
        if counting and event.startswith(("open", "os.", "shutil.", "subprocess.", "fcntl.")):
            events.append(event)

    sys.addaudithook(heard)
    place = machine.place(node.root / target)
    layer = await Trees(node.store).layer(tree.digest, ROOT)

    def wish() -> Wish:
        found = node.store.tree(tree.digest)
        bounds = Bounds(1 << 20, 64)
        return Wish(found, place.target, node.settings.place, Mode.OVERLAY, bounds, layer)

    await machine.publish(place, place.unpublished, wish)
    counting = False


def test_a_large_cache_is_published_in_the_steps_of_a_small_one(node: Node) -> None:
    small = seal_files(node.store, triton_files("add"), name="small")
    kernels = [f"k{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(200)]
    large = seal_files(node.store, triton_files(*kernels), name="large")
    for tree in (small, large):
        node.store.relocated(tree, ROOT)
    # One after the other: each view's journal is one more file to read.
    counts = []
    for pod, tree in (("1", small), ("2", large)):
        try:
            counts.append(touched(node, tree, pod))
        finally:
            asyncio.run(end(node, pod))
    few, many = counts
    assert few["open"] > 5, "the steps were not counted"
    assert many == few


async def end(node: Node, pod: str) -> None:
    machine = Machine(Views(node.store, node.settings.place), Usage(), busy_seconds=600)
    await machine.restore()
    await machine.unpublish(machine.place(node.settings.kubelet_root / "pods" / pod / "mount"))
    await machine.drain()
