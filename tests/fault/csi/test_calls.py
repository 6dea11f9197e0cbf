"""Calls that overlap, are cancelled, or meet a busy mount: what is left is what the last call asked for."""

import asyncio
import contextlib
import os
import random
from collections.abc import Iterator

import grpc
import pytest

from gkm.api.values import CacheKind
from gkm.csi.ports import CacheName
from support.csi import Answer, publish_request
from support.csi_node import Node
from support.csi_node import node as fresh_node
from support.views import seal_files, triton_files

pytestmark = pytest.mark.root

CLUSTER = CacheName(CacheKind.CLUSTER_GKM_CACHE, None, "kernels")
SEEDS = 100


@pytest.fixture
def node() -> Iterator[Node]:
    with fresh_node("/dev/shm", write_limit_bytes=1 << 20, call_seconds=0.2, busy_seconds=0.0) as made:
        yield made
        assert made.mounts() == []
        assert made.leftovers() == []


async def gone(node: Node) -> None:
    while node.leftovers():
        await asyncio.sleep(0.01)


async def test_a_call_cancelled_and_unpublished_at_once_leaves_nothing(node: Node) -> None:
    digest = seal_files(node.store, triton_files("add")).digest
    node.caches.say(CLUSTER, Answer(digest))
    async with node.running() as kubelet:

        async def one(seed: int) -> None:
            pod = node.pod(str(seed))
            publishing = asyncio.ensure_future(
                kubelet.publish(publish_request(node.target(pod), "kernels", pod))
            )
            await asyncio.sleep(random.Random(seed).uniform(0, 0.05))
            publishing.cancel()
            await kubelet.unpublish(node.target(pod))
            with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
                await publishing

        for first in range(0, SEEDS, 4):
            await asyncio.gather(*(one(seed) for seed in range(first, first + 4)))
        # What a call mounts that begins after the unpublish, though it was cancelled before, goes by itself.
        await gone(node)
        assert node.mounts() == []
        assert not any(node.target(node.pod(str(seed))).exists() for seed in range(SEEDS))


async def test_the_same_volume_published_many_times_at_once_is_mounted_once(node: Node) -> None:
    node.caches.say(CLUSTER, Answer(seal_files(node.store, triton_files("add")).digest))
    pod = node.pod("1")
    request = publish_request(node.target(pod), "kernels", pod)
    async with node.running() as kubelet:
        await asyncio.gather(*(kubelet.publish(request) for _ in range(8)))
        assert node.mounts().count(str(node.target(pod))) == 1
        assert node.usage.words() == ["mounted"]
        await asyncio.gather(*(kubelet.unpublish(node.target(pod)) for _ in range(8)))
        await gone(node)


async def test_eight_pods_of_one_slow_cache_share_one_wait(node: Node) -> None:
    """Kubelet publishes a PersistentVolume's pods one by one, and comes again after ABORTED."""
    node.caches.say(CLUSTER, Answer(wait_seconds=0.5, reason="Staging"))
    refused = []
    async with node.running() as kubelet:
        pods = [node.pod(str(number)) for number in range(8)]
        for pod in pods:
            while True:
                try:
                    await kubelet.publish(publish_request(node.target(pod), "kernels", pod))
                    break
                except grpc.aio.AioRpcError as error:
                    refused.append((error.code(), "Staging" in (error.details() or "")))
        # Eight waits of their own would be held up twice each.
        assert refused in [[(grpc.StatusCode.ABORTED, True)] * times for times in (1, 2, 3)]
        told = [reason for about, reason, _ in node.events.told if about in pods]
        assert sorted(told) == ["Staging"] * 8 + ["WaitingForCache"] * len(refused)
        for pod in pods:
            await kubelet.unpublish(node.target(pod))
        await gone(node)


async def test_an_unknown_cache_and_an_unknown_pod_are_waited_for_at_the_same_time() -> None:
    """As when the API server is away."""
    with fresh_node(
        "/dev/shm", write_limit_bytes=1 << 20, call_seconds=0.2, missing_wait_seconds=0.5
    ) as node:
        pod = node.pod("1")
        node.pods.known.clear()
        words = []
        async with node.running() as kubelet:
            while True:
                try:
                    await kubelet.publish(publish_request(node.target(pod), "kernels", pod))
                    break
                except grpc.aio.AioRpcError as error:
                    words.append((error.code(), "CacheUnavailable" in (error.details() or "")))
            assert set(words) == {(grpc.StatusCode.ABORTED, True)}
            assert [reason for _, reason, _ in node.events.told] == ["CacheUnavailable"]
            await kubelet.unpublish(node.target(pod))
            await gone(node)


async def test_an_unpublish_finds_a_slot_while_publishes_wait(node: Node) -> None:
    node.caches.say(CLUSTER, Answer(wait_seconds=None))
    async with node.running() as kubelet:
        pods = [node.pod(str(number)) for number in range(60)]
        calls = [
            asyncio.ensure_future(kubelet.publish(publish_request(node.target(pod), "kernels", pod)))
            for pod in pods
        ]
        while not node.caches.asked:
            await asyncio.sleep(0.01)
        await kubelet.unpublish(node.target(pods[0]))
        results = await asyncio.gather(*calls, return_exceptions=True)
        codes = {error.code() for error in results if isinstance(error, grpc.aio.AioRpcError)}
        assert codes == {grpc.StatusCode.ABORTED}
        assert len(results) == 60


async def test_a_busy_mount_is_tried_again_and_at_last_left_to_its_user(node: Node) -> None:
    digest = seal_files(node.store, triton_files("add")).digest
    node.caches.say(CLUSTER, Answer(digest))
    pod = node.pod("1")
    async with node.running() as kubelet:
        await kubelet.publish(publish_request(node.target(pod), "kernels", pod))
        held = os.open(node.target(pod) / "held", os.O_CREAT | os.O_RDWR)
        try:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await kubelet.unpublish(node.target(pod))
            assert refused.value.code() is grpc.StatusCode.ABORTED
            assert (node.target(pod) / "held").exists()
            await kubelet.unpublish(node.target(pod))
            assert not node.target(pod).exists()
            os.write(held, b"still there")
            # The tree stays until the next boot, whoever collects.
            assert node.store.collect().in_use == (digest,)
        finally:
            os.close(held)
    for path in node.store.layout.mounts.glob("*/journal.json"):
        path.write_text(path.read_text().replace('"bootId":"', '"bootId":"not-'))
    async with node.running():
        await gone(node)
