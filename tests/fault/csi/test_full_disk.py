"""Pods come and go on a node whose disk is really full."""

import asyncio
import errno
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from gkm.api.values import CacheKind
from gkm.csi.machine import Machine
from gkm.csi.node import IN_MEMORY
from gkm.csi.ports import CacheName, PodName
from gkm.csi.views import Views
from gkm.store.bounded import Bounds
from gkm.store.damage import set_aside
from gkm.store.errors import disk_error
from gkm.store.host import Wish
from gkm.store.linux import mountinfo, syscalls
from gkm.store.memory import claim_in_memory
from gkm.store.mode import Mode
from gkm.store.store import Store
from support.csi import Answer, Kubelet, Usage, publish_request
from support.csi_node import Node
from support.csi_node import node as fresh_node
from support.kills import run_killed_at
from support.parts import need_program, need_root
from support.small_disk import fill, fill_bytes, make_room, small_disk
from support.views import everything, seal_files, triton_files

pytestmark = pytest.mark.root

CLUSTER = CacheName(CacheKind.CLUSTER_GKM_CACHE, None, "kernels")
INCOMPATIBLE = Answer(final=True, reason="ArchMismatch", message="sm_80 is not sm_90")
MIB = 1 << 20


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node whose store has a small disk of its own; in the end nothing of any pod is left."""
    with node_with_small_disk(tmp_path) as made:
        yield made
        mounts = [target for target in made.mounts() if target != str(made.store.root)]
        assert mounts == []
        assert made.leftovers() == []


@contextmanager
def node_with_small_disk(folder: Path) -> Iterator[Node]:
    need_root()
    need_program("mkfs.ext4", "e2fsprogs")
    with (
        fresh_node(missing_wait_seconds=0.0, write_limit_bytes=64 * MIB) as made,
        small_disk(folder / "image", made.store.root),
    ):
        Store.open(made.store.root)
        yield made


async def gone(node: Node) -> None:
    """Accounting and deleting come after the answer."""
    while node.leftovers():
        await asyncio.sleep(0.01)


async def start(node: Node, kubelet: Kubelet, *pods: PodName) -> None:
    for pod in pods:
        await kubelet.publish(publish_request(node.target(pod), "kernels", pod))


async def end(node: Node, kubelet: Kubelet, *pods: PodName) -> None:
    for pod in pods:
        await kubelet.unpublish(node.target(pod))
        assert not node.target(pod).exists()
    await gone(node)


@pytest.mark.parametrize("own_users", [False, True])
async def test_a_cold_pod_starts_and_may_add_a_little(node: Node, own_users: bool) -> None:
    node.caches.say(CLUSTER, INCOMPATIBLE)
    one, two = (node.pod(uid, host_users=not own_users) for uid in ("1", "2"))
    fill(node.store.root)
    async with node.running() as kubelet:
        await start(node, kubelet, one, two)
        assert [told[:2] for told in node.events.told if told[0] == one] == [
            (one, "ArchMismatch"),
            (one, IN_MEMORY),
        ]
        large, other = node.target(one) / "large", node.target(two) / "kernel"
        assert everything(node.target(one)) == {}
        with pytest.raises(OSError, match="No space left") as refused:
            large.write_bytes(bytes(32 * MIB))
        assert refused.value.errno == errno.ENOSPC
        assert large.stat().st_size > 15 * MIB
        # What one pod fills is its own.
        other.write_bytes(os.urandom(2 * MIB))
        stats = await kubelet.stats(node.target(two), "csi-2")
        assert 2 * MIB <= stats.usage[0].used < 3 * MIB
        assert 15 * MIB < stats.usage[0].total < 17 * MIB
        assert not stats.volume_condition.abnormal
        await start(node, kubelet, one, two)  # kubelet was restarted
    async with node.running() as kubelet:
        # The agent as well: the mounts are as they were, and it knows of both.
        assert node.usage.words() == ["mounted", "mounted", "restored", "restored"]
        assert {view.pod for word, view in node.usage.told if word == "restored"} == {one, two}
        assert len(other.read_bytes()) == 2 * MIB
        await start(node, kubelet, one)
        await end(node, kubelet, one, two)
    assert node.usage.words().count("unmounted") == 2


async def test_one_that_waits_starts_warm_once_there_is_room(node: Node) -> None:
    files = triton_files("add")
    digest = seal_files(node.store, files).digest
    node.caches.say(CLUSTER, Answer(digest))
    cold, waiting = node.pod("1"), node.pod("2")
    fill(node.store.root)
    async with node.running() as kubelet:
        await start(node, kubelet, cold)
        assert everything(node.target(cold)) == {}
        told = [(about, reason) for about, reason, _ in node.events.told]
        assert told == [(cold, "StoreFull"), (CLUSTER, "StoreFull"), (cold, IN_MEMORY)]
        node.caches.say(CLUSTER, Answer(digest, wait_seconds=None))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await start(node, kubelet, waiting)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert not node.target(waiting).exists()
        make_room(node.store.root)
        await start(node, kubelet, waiting)
        assert everything(node.target(waiting)).keys() == files.keys()
        await end(node, kubelet, cold, waiting)


async def test_warm_pods_end_and_their_tree_goes(node: Node) -> None:
    tree = seal_files(node.store, triton_files("add"))
    node.caches.say(CLUSTER, Answer(tree.digest))
    pods = [node.pod(str(number)) for number in range(3)]
    async with node.running() as kubelet:
        await start(node, kubelet, *pods)
        (node.target(pods[0]) / "made").write_text("x")
        fill(node.store.root)
        await start(node, kubelet, *pods)
        await end(node, kubelet, *pods)
    assert node.usage.uppers[node.target(pods[0])] == {"made"}
    assert node.store.collect().removed == (tree.digest,)


async def test_a_node_starts_again(node: Node) -> None:
    """Its mounts are gone; to end what the journals tell of there is no room to write anything down."""
    tree = seal_files(node.store, triton_files("add"))
    warm, cold = node.pod("1"), node.pod("2")
    node.caches.say(CLUSTER, Answer(tree.digest))
    async with node.running() as kubelet:
        await start(node, kubelet, warm)
        fill(node.store.root)
        node.caches.say(CLUSTER, INCOMPATIBLE)
        await start(node, kubelet, cold)
    for entry in reversed(mountinfo.mounts()):
        if Path(entry.target).is_relative_to(node.settings.kubelet_root):
            syscalls.umount(entry.target, syscalls.MNT_DETACH)
    (journal,) = node.store.layout.mounts.glob("*/journal.json")
    assert json.loads(journal.read_bytes())["state"] == "live"
    async with node.running() as kubelet:
        await gone(node)
        await start(node, kubelet, warm, cold)
        assert [everything(node.target(pod)) for pod in (warm, cold)] == [{}, {}]
        await end(node, kubelet, warm, cold)


async def test_a_damaged_tree_that_cannot_be_set_aside_is_done_without(node: Node) -> None:
    tree = seal_files(node.store, triton_files("add"))
    (tree.directory / "record.json").write_text("{")
    node.caches.say(CLUSTER, Answer(tree.digest))

    async def lost(digest: str, _: object) -> bool:
        try:
            await asyncio.to_thread(set_aside, node.store.layout, digest)
        except OSError as error:
            raise disk_error(error, "setting it aside", node.store.root) from error
        raise AssertionError("there was room")

    node.trees.lost = lost  # type: ignore[method-assign]
    pod = node.pod("1")
    fill(node.store.root)
    async with node.running() as kubelet:
        await start(node, kubelet, pod)
        assert everything(node.target(pod)) == {}
        assert node.events.told[0][:2] == (pod, "TreeDamaged")
        await end(node, kubelet, pod)


async def test_what_kubelets_own_disk_cannot_keep_is_not_promised(tmp_path: Path) -> None:
    """An image of the bounded directory is sparse, so there is always room to make it."""
    need_root()
    need_program("mkfs.ext4", "e2fsprogs")
    with (
        # A socket's path may have 107 bytes.
        tempfile.TemporaryDirectory(prefix="gkm-", dir="/tmp") as folder,
        small_disk(tmp_path / "image", disk := Path(folder)),
        fresh_node(folder, missing_wait_seconds=0.0, write_limit_bytes=64 * MIB) as node,
    ):
        node.caches.say(CLUSTER, INCOMPATIBLE)
        before, after = node.pod("1"), node.pod("2")
        async with node.running() as kubelet:
            await start(node, kubelet, before)
            assert [told[1] for told in node.events.told] == ["ArchMismatch", "ArchMismatch"]
            fill_bytes(disk, but=MIB)
            await start(node, kubelet, after)
            assert node.events.told[-1][:2] == (after, IN_MEMORY)
            kernel = os.urandom(4 * MIB)
            with (node.target(after) / "kernel").open("wb") as file:
                file.write(kernel)
                os.fsync(file.fileno())
            assert (node.target(after) / "kernel").read_bytes() == kernel
            await end(node, kubelet, before, after)


def test_what_another_agent_is_making_is_no_stray(node: Node) -> None:
    views = Views(node.store, node.settings.place)
    views.prepare()
    owned = claim_in_memory(views.place, Bounds(MIB, 64))
    views.drop_strays()
    assert owned.path.is_mount()
    owned.close()
    views.drop_strays()
    assert not owned.path.exists()


@pytest.mark.parametrize("call", ["publish", "unpublish"])
def test_killed_at_every_step(tmp_path: Path, call: str) -> None:
    with node_with_small_disk(tmp_path) as node:
        target = node.target(node.pod("1"))
        target.parent.mkdir(parents=True)
        fill(node.store.root)
        step, done = 0, False
        while not done:
            step += 1
            done = agent(node, target, "publish", step if call == "publish" else 0)
            if call == "unpublish":
                done = agent(node, target, "unpublish", step)
            # The next agent takes over, whatever was half-done.
            assert agent(node, target, "unpublish")
            assert [path for path in node.mounts() if path != str(node.store.root)] == [], step
            assert node.leftovers() == [], step
        assert step > 15, "the steps were not counted"


def agent(node: Node, target: Path, call: str, kill: int = 0) -> bool:
    """An agent's life with one call in it, killed at its step `kill`; whether it came to its end."""

    async def life() -> None:
        machine = Machine(Views(Store.open(node.store.root), node.settings.place), Usage(), busy_seconds=600)
        await machine.restore()
        place = machine.place(target)
        if call == "publish":
            wish = Wish(None, target, node.settings.place, Mode.OVERLAY, Bounds(MIB, 64))
            made = await machine.publish(place, place.unpublished, lambda: wish)
            assert made is None or made.in_memory
        else:
            await machine.unpublish(place)
        await machine.drain()

    return run_killed_at(kill, lambda: asyncio.run(life()))
