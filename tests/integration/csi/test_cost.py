"""What a call touches depends neither on how much its cache holds nor, where kubelet asks all the time, on how many
volumes there are."""

import asyncio
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from gkm.api.values import CacheKind
from gkm.csi.machine import Machine
from gkm.csi.ports import CacheName
from gkm.csi.views import Views
from gkm.store.bounded import Bounds
from gkm.store.host import HostedView, Wish, hosted_views
from gkm.store.journal import Journal, read_journal
from gkm.store.layout import Layout
from gkm.store.linux import mountinfo
from gkm.store.mode import Mode
from gkm.store.sealed import SealedTree
from support.csi import Answer, Trees, Usage, publish_request
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


async def test_kubelets_looks_at_a_volume_read_nothing_however_many_there_are(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = seal_files(node.store, triton_files("add"), name="c")
    node.caches.say(CacheName(CacheKind.GKM_CACHE, "team", "c"), Answer(digest=tree.digest))
    read: list[object] = []

    def reading(directory: Path) -> Journal | None:
        read.append(directory)
        return read_journal(directory)

    def listing(layout: Layout, place: Path, *words: Any) -> list[HostedView]:
        read.append(place)
        return hosted_views(layout, place, *words)

    def mounts() -> tuple[mountinfo.MountEntry, ...]:
        read.append("mountinfo")
        return parsed()

    parsed = mountinfo.mounts
    monkeypatch.setattr("gkm.store.journal_memory.read_journal", reading)
    monkeypatch.setattr("gkm.store.host.hosted_views", listing)
    monkeypatch.setattr(mountinfo, "mounts", mounts)
    async with node.running() as kubelet:
        pods = [node.pod(uid) for uid in ("1", "2", "3")]
        for pod in pods:
            node.target(pod).parent.mkdir(parents=True)
            await kubelet.publish(publish_request(node.target(pod), "c", pod, namespace="team"))
        first = await kubelet.stats(node.target(pods[-1]), "csi-3")
        assert {Path(str(place)).parent for place in read} > {node.store.layout.mounts}, (
            "reading was not seen"
        )
        read.clear()
        for pod in pods:
            stats = await kubelet.stats(node.target(pod), f"csi-{pod.uid}")
            assert stats.usage[0].total == first.usage[0].total
            assert not stats.volume_condition.abnormal
        assert read == []
        # What came to an end is not remembered as if it stood.
        await kubelet.unpublish(node.target(pods[0]), "csi-1")
        with pytest.raises(grpc.aio.AioRpcError, match="no volume csi-1 of ours"):
            await kubelet.stats(node.target(pods[0]), "csi-1")
        for pod in pods[1:]:
            await kubelet.unpublish(node.target(pod))


@pytest.mark.parametrize("users", [True, False], ids=["overlay", "copy"])
async def test_no_call_waits_for_what_others_write_to_the_disk(
    node: Node, monkeypatch: pytest.MonkeyPatch, *, users: bool
) -> None:
    tree = seal_files(node.store, triton_files("add"), name="c")
    node.caches.say(CacheName(CacheKind.GKM_CACHE, "team", "c"), Answer(digest=tree.digest))
    pod = node.pod("1", host_users=users)
    node.store.relocated(tree, ROOT)
    synced: list[int] = []
    for name in ("fsync", "fdatasync", "sync"):
        monkeypatch.setattr(os, name, lambda *fds: synced.extend(fds or [-1]))
    async with node.running() as kubelet:
        node.target(pod).parent.mkdir(parents=True)
        await kubelet.publish(publish_request(node.target(pod), "c", pod, namespace="team"))
        await kubelet.unpublish(node.target(pod))
    assert node.usage.words() == ["mounted", "unmounting", "unmounted"]
    assert synced == []


async def end(node: Node, pod: str) -> None:
    machine = Machine(Views(node.store, node.settings.place), Usage(), busy_seconds=600)
    await machine.restore()
    await machine.unpublish(machine.place(node.settings.kubelet_root / "pods" / pod / "mount"))
    await machine.drain()
