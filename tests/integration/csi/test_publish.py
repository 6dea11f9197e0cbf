"""Kubelet publishes and unpublishes over the real sockets, with real mounts."""

import asyncio
import errno
import os
import subprocess
import tempfile
from pathlib import Path

import grpc
import pytest

from gkm.api.values import CacheKind
from gkm.csi.node import IN_MEMORY
from gkm.csi.ports import CacheName, PodName
from gkm.kubelet.protos import csi_pb2 as wire
from gkm.kubelet.protos import pluginregistration_pb2 as registration
from gkm.kubelet.registration import registration_socket
from gkm.store.layers import all_layers
from support.csi import Answer, dialled, mount, pod_facts, publish_request
from support.csi_node import Node
from support.csi_node import node as fresh_node
from support.views import everything, seal_files, triton_files

pytestmark = pytest.mark.root

CLUSTER = CacheName(CacheKind.CLUSTER_GKM_CACHE, None, "kernels")
OWN = CacheName(CacheKind.GKM_CACHE, "team", "kernels")
ENTRY = "ADD" + "A" * 49


async def gone(node: Node) -> None:
    """Accounting and deleting come after the answer."""
    while node.leftovers():
        await asyncio.sleep(0.01)


async def test_a_pod_gets_the_tree_with_the_paths_it_sees_and_its_own_upper(node: Node) -> None:
    tree = seal_files(node.store, triton_files("add"))
    node.caches.say(CLUSTER, Answer(tree.digest))
    one, two = node.pod("1", "/root/.triton/cache"), node.pod("2", "/elsewhere")
    async with node.running() as kubelet:
        for pod in (one, two):
            await kubelet.publish(publish_request(node.target(pod), "kernels", pod))
        for pod, path in ((one, "/root/.triton/cache"), (two, "/elsewhere")):
            group = (node.target(pod) / ENTRY / "__grp__add.json").read_text()
            assert f'"{path}/{ENTRY}/add.cubin"' in group
        (node.target(one) / "made").write_text("x")
        assert not (node.target(two) / "made").exists()
        assert everything(tree.path) == triton_files("add")
        for pod in (one, two):
            await kubelet.unpublish(node.target(pod))
            assert not node.target(pod).exists()
        await gone(node)
    assert node.usage.uppers[node.target(one)] == {"made"}
    assert node.usage.words()[:2] == ["mounted", "mounted"]
    assert sorted(node.usage.words()[2:]) == ["unmounted", "unmounted", "unmounting", "unmounting"]
    assert node.events.told == []


async def test_pods_that_see_a_cache_at_one_path_share_one_layer_after_a_restart_too(node: Node) -> None:
    tree = seal_files(node.store, triton_files("add"))
    node.caches.say(CLUSTER, Answer(tree.digest))
    pods = [node.pod(str(number), "/seen") for number in range(3)]
    for pod in pods:
        async with node.running() as kubelet:
            await kubelet.publish(publish_request(node.target(pod), "kernels", pod))
    (layer,) = (use.directory for use in all_layers(tree.directory))
    for pod in pods:
        (line,) = mountinfo_of(node.target(pod))
        assert f"lowerdir={layer}/files:{tree.path}," in line
    # Nobody's change reaches the others, whose file lies in the same layer.
    group = f"{ENTRY}/__grp__add.json"
    (node.target(pods[0]) / group).write_text("changed")
    assert (node.target(pods[1]) / group).read_text() == (layer / "files" / group).read_text() != "changed"
    # Used by pods, it stays, whoever collects.
    node.store.collect(layers_unused_seconds=-1)
    assert len(all_layers(tree.directory)) == 1
    async with node.running() as kubelet:
        for pod in pods:
            await kubelet.unpublish(node.target(pod))
        await gone(node)
    node.store.collect(keep={tree.digest}, layers_unused_seconds=-1)
    assert all_layers(tree.directory) == []


async def test_any_uid_may_write_and_execute_and_setuid_and_devices_are_dead(node: Node) -> None:
    tree = seal_files(node.store, triton_files("add"), executable=[f"{ENTRY}/add.cubin"])
    node.caches.say(CLUSTER, Answer(tree.digest))
    for uid, own_users in (("1", True), ("2", False)):
        pod = node.pod(uid, host_users=own_users)
        path = node.target(pod)
        async with node.running() as kubelet:
            await kubelet.publish(publish_request(path, "kernels", pod))
            child = os.fork()
            if child == 0:
                try:
                    os.chdir(path)
                    os.setgroups([])
                    os.setgid(123456)
                    os.setuid(123456)
                    Path("new").write_text("x")
                    Path(ENTRY, "add.cubin").write_text("changed")
                    os._exit(0 if os.access(f"{ENTRY}/add.cubin", os.X_OK) else 2)
                finally:
                    os._exit(1)
            assert os.waitpid(child, 0)[1] == 0
            flags = os.statvfs(path).f_flag
            assert flags & os.ST_NOSUID
            assert flags & os.ST_NODEV  # type: ignore[attr-defined]  # Linux alone has it
            assert not flags & os.ST_NOEXEC  # type: ignore[attr-defined]  # Linux alone has it
            await kubelet.unpublish(path)
            await gone(node)
    assert everything(tree.path) == triton_files("add")


async def test_publishing_again_succeeds_before_any_question_is_asked(node: Node) -> None:
    tree = seal_files(node.store, triton_files("add"))
    node.caches.say(CLUSTER, Answer(tree.digest))
    pod = node.pod("1")
    request = publish_request(node.target(pod), "kernels", pod)
    async with node.running() as kubelet:
        await kubelet.publish(request)
    del node.caches.answers[CLUSTER]
    node.pods.known.clear()
    asked = node.caches.asked
    async with node.running() as kubelet:
        await kubelet.publish(request)
        assert node.caches.asked == asked
        assert len([m for m in node.mounts() if m == str(node.target(pod))]) == 1
        await kubelet.unpublish(node.target(pod))
        await kubelet.unpublish(node.target(pod))
        await gone(node)
    assert node.usage.words() == ["mounted", "restored", "unmounting", "unmounted"]


async def test_a_pod_in_a_user_namespace_gets_a_copy(node: Node) -> None:
    tree = seal_files(node.store, triton_files("add"))
    node.caches.say(CLUSTER, Answer(tree.digest))
    pod = node.pod("1", "/seen", host_users=False)
    async with node.running() as kubelet:
        await kubelet.publish(publish_request(node.target(pod), "kernels", pod))
        assert everything(node.target(pod)).keys() == triton_files("add").keys()
        assert f"/seen/{ENTRY}/" in (node.target(pod) / ENTRY / "__grp__add.json").read_text()
        assert node.usage.told[0][1].mode == "copy"
        assert node.usage.told[0][1].bounded
        assert "overlay" not in {line.split(" - ")[1].split()[0] for line in mountinfo_of(node.target(pod))}
        await kubelet.unpublish(node.target(pod))
        await gone(node)


async def test_what_one_pod_may_add_is_bounded_and_the_pod_is_told(node: Node) -> None:
    node.caches.say(CLUSTER, Answer(seal_files(node.store, triton_files("add")).digest))
    pod = node.pod("1")
    async with node.running() as kubelet:
        await kubelet.publish(publish_request(node.target(pod), "kernels", pod))
        before = await kubelet.stats(node.target(pod), "csi-1")
        with pytest.raises(OSError, match="No space left") as caught:
            (node.target(pod) / "big").write_bytes(b"\1" * (40 << 20))
        assert caught.value.errno == errno.ENOSPC
        after = await kubelet.stats(node.target(pod), "csi-1")
        assert before.usage[0].available > after.usage[0].available
        assert before.usage[0].total < 20 << 20
        assert not after.volume_condition.abnormal
        assert [(told[0], told[1]) for told in node.events.told] == [(pod, "WriteLimitReached")]
        await kubelet.unpublish(node.target(pod))
        await gone(node)


async def test_a_read_only_volume_is_read_only_and_says_so(node: Node) -> None:
    node.caches.say(CLUSTER, Answer(seal_files(node.store, triton_files("add")).digest))
    for uid, own_users in (("1", True), ("2", False)):
        pod = node.pod(uid, host_users=own_users)
        async with node.running() as kubelet:
            await kubelet.publish(publish_request(node.target(pod), "kernels", pod, ro=True))
            with pytest.raises(OSError, match="Read-only"):
                (node.target(pod) / "made").write_text("x")
            await kubelet.unpublish(node.target(pod))
            await gone(node)
        assert node.events.told[-1][:2] == (pod, "ReadOnlyMount")


@pytest.mark.parametrize(
    ("namespace", "answer"),
    [(None, None), ("team", None), ("other", Answer(digest="sha256:" + "0" * 64))],
    ids=["missing", "missing-in-namespace", "anothers"],
)
async def test_a_missing_and_a_forbidden_cache_behave_alike(
    node: Node, namespace: str | None, answer: Answer | None
) -> None:
    kind = CacheKind.CLUSTER_GKM_CACHE if namespace is None else CacheKind.GKM_CACHE
    cache = CacheName(kind, namespace, "kernels")
    if answer is not None:
        node.caches.say(cache, answer)
    pod = node.pod("1")
    async with node.running() as kubelet:
        await kubelet.publish(publish_request(node.target(pod), "kernels", pod, namespace=namespace))
        assert list(node.target(pod).iterdir()) == []
        (node.target(pod) / "made").write_text("x")
        await kubelet.unpublish(node.target(pod))
        await gone(node)
    why = "no such cache is there for pods of this namespace: see its name, its namespace and its conditions"
    text = f"starts without {cache}: {why}"
    assert node.events.told == [(pod, "CacheUnavailable", text)]
    assert node.usage.told[0][1].digest is None


async def test_a_final_answer_starts_cold_at_once_and_cache_and_pod_are_told(node: Node) -> None:
    node.caches.say(OWN, Answer(final=True, reason="ArchMismatch", message="sm_80 is not sm_90"))
    pod = node.pod("1")
    async with node.running() as kubelet:
        await kubelet.publish(publish_request(node.target(pod), "kernels", pod, namespace="team"))
        assert [(about, reason) for about, reason, _ in node.events.told] == [
            (pod, "ArchMismatch"),
            (OWN, "ArchMismatch"),
        ]
        await kubelet.unpublish(node.target(pod))
        await gone(node)


async def test_a_damaged_tree_does_not_keep_a_pod_from_starting(node: Node) -> None:
    tree = seal_files(node.store, triton_files("add"))
    (tree.directory / "inventory.json").write_text("{")
    node.caches.say(CLUSTER, Answer(tree.digest))
    pod = node.pod("1")
    async with node.running() as kubelet:
        await kubelet.publish(publish_request(node.target(pod), "kernels", pod))
        assert list(node.target(pod).iterdir()) == []
        assert node.events.told[0][1] == "TreeDamaged"
        assert node.trees.lost_digests == [tree.digest]
        node.caches.say(CLUSTER, Answer(tree.digest, wait_seconds=None))
        other = node.pod("2")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await kubelet.publish(publish_request(node.target(other), "kernels", other))
        assert refused.value.code() is grpc.StatusCode.INTERNAL
        await kubelet.unpublish(node.target(pod))
        await kubelet.unpublish(node.target(other))
        await gone(node)


async def test_a_damaged_tree_that_is_staged_again_is_waited_for(node: Node) -> None:
    files = triton_files("add")
    tree = seal_files(node.store, files)
    (tree.directory / "inventory.json").write_text("{")
    node.caches.say(CLUSTER, Answer(tree.digest))
    node.trees.comes_again = True
    pod = node.pod("1")
    request = publish_request(node.target(pod), "kernels", pod)
    async with node.running() as kubelet:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await kubelet.publish(request)
        assert refused.value.code() is grpc.StatusCode.ABORTED
        assert "staged again" in (refused.value.details() or "")
        assert node.trees.lost_digests == [tree.digest]
        seal_files(node.store, files)
        await kubelet.publish(request)
        assert everything(node.target(pod)).keys() == files.keys()
        assert node.events.told == []
        await kubelet.unpublish(node.target(pod))
        await gone(node)


@pytest.mark.parametrize("own_users", [True, False])
async def test_a_full_disk_does_not_keep_a_pod_from_starting(own_users: bool) -> None:
    """There is no room for the relocation layer, of a file in a block for each kernel, or for a copy in an image that
    is sparse."""
    disk = Path(tempfile.mkdtemp(prefix="gkm-disk-", dir="/tmp"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=755", "gkm-test", disk], check=True)
    try:
        with fresh_node(str(disk), write_limit_bytes=16 << 20) as node:
            files = triton_files("add", *(f"k{number}" for number in range(200 if own_users else 0)))
            tree = seal_files(node.store, files | {f"{ENTRY}/large": os.urandom(1 << 20)})
            node.caches.say(CLUSTER, Answer(tree.digest))
            pod, waiting = (node.pod(uid, host_users=own_users) for uid in ("1", "2"))
            free = os.statvfs(disk)
            (disk / "ballast").write_bytes(bytes(free.f_bavail * free.f_frsize - (512 << 10)))
            async with node.running() as kubelet:
                await kubelet.publish(publish_request(node.target(pod), "kernels", pod))
                assert list(node.target(pod).iterdir()) == []
                told = [(about, reason) for about, reason, _ in node.events.told]
                assert told == [(pod, "StoreFull"), (CLUSTER, "StoreFull"), (pod, IN_MEMORY)]
                node.caches.say(CLUSTER, Answer(tree.digest, wait_seconds=None))
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await kubelet.publish(publish_request(node.target(waiting), "kernels", waiting))
                assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                (disk / "ballast").unlink()
                await kubelet.publish(publish_request(node.target(waiting), "kernels", waiting))
                assert (node.target(waiting) / ENTRY).is_dir()
                for one in (pod, waiting):
                    await kubelet.unpublish(node.target(one))
                await gone(node)
    finally:
        subprocess.run(["umount", disk], check=True)
        disk.rmdir()


async def test_a_claims_volume_is_found_in_the_pod_by_the_claims_name(node: Node) -> None:
    node.caches.say(OWN, Answer(seal_files(node.store, triton_files("add")).digest))
    pod = PodName("team", "pod", "1")
    mounts = [mount("other", "/wrong"), mount("mine", "/models/sub", "sub")]
    node.pods.known["1"] = pod_facts(mounts, claims={"mine": "kernels", "other": "else"})
    target = node.target(pod, "gkm-kernels-12345")
    async with node.running() as kubelet:
        request = publish_request(target, "kernels", pod, namespace="team", inline=False)
        await kubelet.publish(request)
        assert f"/models/{ENTRY}/" in (target / ENTRY / "__grp__add.json").read_text()
        await kubelet.unpublish(target)
        await gone(node)


async def test_a_pod_that_is_waited_for_starts_when_its_cache_comes(node: Node) -> None:
    tree = seal_files(node.store, triton_files("add"))
    node.caches.say(CLUSTER, Answer(wait_seconds=None))
    pod = node.pod("1")
    async with node.running() as kubelet:
        publishing = asyncio.ensure_future(kubelet.publish(publish_request(node.target(pod), "kernels", pod)))
        while not node.caches.asked:
            await asyncio.sleep(0.01)
        assert not publishing.done()
        node.caches.say(CLUSTER, Answer(tree.digest))
        await publishing
        assert (node.target(pod) / ENTRY).is_dir()
        await kubelet.unpublish(node.target(pod))
        await gone(node)


async def test_kubelet_is_told_where_the_driver_answers(node: Node) -> None:
    async with (
        node.running(),
        dialled(registration_socket(node.settings.kubelet_root, "csi.gkm.io")) as kubelet,
    ):
        service = "pluginregistration.Registration"
        info = await kubelet.call(f"{service}/GetInfo", registration.InfoRequest(), registration.PluginInfo)
        assert (info.type, info.name, list(info.supported_versions)) == ("CSIPlugin", "csi.gkm.io", ["1.0.0"])
        async with dialled(Path(info.endpoint)) as driver:
            name = await driver.call(
                "csi.v1.Identity/GetPluginInfo", wire.GetPluginInfoRequest(), wire.GetPluginInfoResponse
            )
            assert name.name == "csi.gkm.io"
            ready = await driver.call("csi.v1.Identity/Probe", wire.ProbeRequest(), wire.ProbeResponse)
            assert ready.ready.value
            got = await driver.call("NodeGetInfo", wire.NodeGetInfoRequest(), wire.NodeGetInfoResponse)
            assert got.node_id == "node"


@pytest.mark.parametrize("field", ["volume_id", "target_path", "volume_capability"])
async def test_a_malformed_call_is_refused_and_makes_nothing(node: Node, field: str) -> None:
    pod = node.pod("1")
    request = publish_request(node.target(pod), "kernels", pod)
    request.ClearField(field)  # type: ignore[arg-type]  # the stub lists the names as literals
    async with node.running() as kubelet:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await kubelet.publish(request)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert not node.target(pod).exists()


def mountinfo_of(path: Path) -> list[str]:
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f" {path} " in line]
