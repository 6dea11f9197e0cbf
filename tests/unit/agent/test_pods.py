"""What is read of a pod: the caches that its volumes stand for, and what the CSI driver asks."""

from typing import Any

import msgspec

from gkm.agent.grants import CacheKey
from gkm.agent.pods import NODE_PODS, NodePod, caches_named
from gkm.agent.roots import MOST_ROOTS, roots_awaiting, unseen
from gkm.api.values import CacheKind
from support.granting import digest, grant

INLINE = {
    "name": "cache",
    "csi": {
        "driver": "csi.gkm.io",
        "volumeAttributes": {"csi.gkm.io/GKMCache": "vector-add", "csi.gkm.io/namespace": "dev"},
    },
}


def pod(*volumes: dict[str, Any], status: str = "Pending", **more: Any) -> NodePod:
    plain = {
        "metadata": {"name": "p", "namespace": "dev", "uid": "u", **more.pop("metadata", {})},
        "spec": {"nodeName": "node-1", "volumes": list(volumes), **more},
        "status": {"phase": status},
    }
    return NODE_PODS.decode(msgspec.json.encode(plain))


def test_an_inline_volume_names_its_cache() -> None:
    assert list(caches_named(pod(INLINE))) == [CacheKey(CacheKind.GKM_CACHE, "dev", "vector-add")]
    cluster = {
        "name": "c",
        "csi": {"driver": "csi.gkm.io", "volumeAttributes": {"csi.gkm.io/GKMCache": "big"}},
    }
    assert list(caches_named(pod(cluster))) == [CacheKey(CacheKind.CLUSTER_GKM_CACHE, None, "big")]


def test_a_claim_may_be_a_cache_of_either_kind() -> None:
    volume = {"name": "c", "persistentVolumeClaim": {"claimName": "big"}}
    assert set(caches_named(pod(volume))) == {
        CacheKey(CacheKind.GKM_CACHE, "dev", "big"),
        CacheKey(CacheKind.CLUSTER_GKM_CACHE, None, "big"),
    }


def test_other_volumes_and_pods_that_are_over_ask_for_nothing() -> None:
    foreign = {
        "name": "x",
        "csi": {"driver": "other.example", "volumeAttributes": {"csi.gkm.io/GKMCache": "a"}},
    }
    assert list(caches_named(pod(foreign, {"name": "e", "emptyDir": {}}))) == []
    assert list(caches_named(pod(INLINE, status="Succeeded"))) == []
    assert list(caches_named(pod(INLINE, status="Failed"))) == []
    assert list(caches_named(pod(INLINE, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))) == []


def test_the_driver_reads_mounts_of_main_containers_and_the_user_namespace() -> None:
    found = pod(
        INLINE,
        hostUsers=False,
        initContainers=[{"name": "i", "volumeMounts": [{"name": "cache", "mountPath": "/init"}]}],
        containers=[
            {
                "name": "a",
                "volumeMounts": [{"name": "cache", "mountPath": "/c", "subPath": "s", "readOnly": True}],
            },
            {"name": "b"},
        ],
    )
    assert found.host_users is False
    assert [volume.name for volume in found.volumes] == ["cache"]
    first, second = found.containers
    assert [(m.name, m.mount_path, m.sub_path, m.read_only) for m in first] == [("cache", "/c", "s", True)]
    assert second == ()


def test_the_paths_that_wait_for_a_digest_are_those_of_pods_that_may_have_it() -> None:
    def seen(found: NodePod, volume: str) -> str | None:
        return next((m.mount_path for c in found.containers for m in c if m.name == volume), None)

    def at(path: str, namespace: str = "dev") -> NodePod:
        mounts = [{"name": "c", "volumeMounts": [{"name": "cache", "mountPath": path}]}]
        return pod(INLINE, containers=mounts, metadata={"namespace": namespace})

    pods = [at("/b"), at("/a"), at("/a"), at("/other", "elsewhere"), pod(INLINE)]
    mine = grant(digest("a"), digest("b"))
    assert roots_awaiting(digest("a"), [mine], pods, seen) == ("/a", "/b")
    assert roots_awaiting(digest("b"), [mine], pods, seen) == (), "an older digest is not staged"
    assert roots_awaiting(digest("a"), [grant(digest("a"), name="another")], pods, seen) == ()
    assert roots_awaiting(digest("a"), [mine], pods, unseen) == ()
    many = [at(f"/{number:02}") for number in range(MOST_ROOTS + 5)]
    assert len(roots_awaiting(digest("a"), [mine], many, seen)) == MOST_ROOTS
