"""Reading what kubelet and users wrote: targets, attributes, the path at which a pod sees its volume."""

from pathlib import Path

import pytest

from gkm.api.values import CacheKind
from gkm.csi.errors import InvalidRequestError
from gkm.csi.paths import seen_at
from gkm.csi.ports import CacheName, PodName
from gkm.csi.volume import parse_publish, parse_target
from gkm.kubelet.protos import csi_pb2 as wire
from support.csi import mount, pod_facts, publish_request, target

ROOT = Path("/var/lib/kubelet")
POD = PodName("team", "pod", "0a-1b")


def request(**changes: str) -> wire.NodePublishVolumeRequest:
    """A good call, with attributes changed or (empty) taken away; `_` stands for ``/``, ``.`` or ``-``."""
    made = publish_request(target(ROOT, POD.uid), "kernels", POD)
    for name, value in changes.items():
        key = {
            "cache": "csi.gkm.io/GKMCache",
            "namespace": "csi.gkm.io/namespace",
            "pod_uid": "csi.storage.k8s.io/pod.uid",
            "pod_name": "csi.storage.k8s.io/pod.name",
            "pod_namespace": "csi.storage.k8s.io/pod.namespace",
        }[name]
        made.volume_context[key] = value
    return made


def test_no_namespace_means_a_cluster_cache() -> None:
    assert parse_publish(ROOT, request()).cache == CacheName(CacheKind.CLUSTER_GKM_CACHE, None, "kernels")
    assert parse_publish(ROOT, request(namespace="")).cache.kind is CacheKind.CLUSTER_GKM_CACHE
    named = parse_publish(ROOT, request(namespace="team"))
    assert named.cache == CacheName(CacheKind.GKM_CACHE, "team", "kernels")
    assert named.pod == POD
    assert named.inline


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cache": ""}, "GKMCache is ''"),
        ({"cache": "../up"}, "GKMCache"),
        ({"cache": "Upper"}, "GKMCache"),
        ({"cache": "x\ny"}, "GKMCache"),
        ({"namespace": "a/b"}, "namespace"),
        ({"pod_uid": ""}, "podInfoOnMount"),
        ({"pod_name": ""}, "podInfoOnMount"),
        ({"pod_namespace": ""}, "podInfoOnMount"),
        ({"pod_uid": "another"}, "of pod another"),
    ],
)
def test_attributes_that_say_nothing_usable_are_refused(changes: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        parse_publish(ROOT, request(**changes))


def test_a_block_volume_is_refused() -> None:
    made = request()
    made.volume_capability.block.SetInParent()
    with pytest.raises(InvalidRequestError, match="Filesystem"):
        parse_publish(ROOT, made)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "relative",
        "/var/lib/kubelet/pods",
        "/var/lib/kubelet/pods/1/volumes/kubernetes.io~csi/x",
        "/var/lib/kubelet/pods/1/volumes/kubernetes.io~csi/x/mount/",
        "/var/lib/kubelet/pods/1/volumes/kubernetes.io~csi/../mount",
        "/var/lib/kubelet/pods/../volumes/kubernetes.io~csi/x/mount",
        "/var/lib/kubelet/pods/1/volumes/kubernetes.io~empty-dir/x/mount",
        "/var/lib/kubelet/plugins/csi.gkm.io/views/1/fs",
        "/var/lib/other/pods/1/volumes/kubernetes.io~csi/x/mount",
        "/etc",
    ],
)
def test_only_kubelets_own_paths_are_targets(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="kubelet's root directory"):
        parse_target(ROOT, text)


def test_the_volume_and_the_pod_stand_in_the_path() -> None:
    found = parse_target(ROOT, str(target(ROOT, "1-2", "pv-x")))
    assert (found.pod_uid, found.volume) == ("1-2", "pv-x")


@pytest.mark.parametrize(
    ("mounts", "root"),
    [
        ([mount("cache", "/root/.triton/cache")], "/root/.triton/cache"),
        ([mount("cache", "/cache/")], "/cache"),
        ([mount("cache", "/models/cache/sub", "cache/sub")], "/models"),
        ([mount("cache", "/models/cache", "./cache/")], "/models"),
        ([mount("other", "/wrong"), mount("cache", "/right")], "/right"),
        ([mount("cache", "/a/x", "x"), mount("cache", "/a/y", "y")], "/a"),
        ([mount("cache", "/elsewhere", "sub")], None),
        ([mount("cache", "/sub", "sub")], None),
        ([mount("cache", "/a"), mount("cache", "/b")], None),
        ([mount("cache", "/a/$(POD)", expr="$(POD)")], None),
        ([mount("cache", "/a\n/b")], None),
        ([mount("other", "/a")], None),
        ([], None),
    ],
)
def test_the_root_for_relocation(mounts: list[object], root: str | None) -> None:
    seen = seen_at(pod_facts(mounts), parse_publish(ROOT, request()))
    assert seen.root == root
    assert bool(seen.why_not) == (root is None)


def test_the_first_container_that_mounts_the_volume_decides() -> None:
    facts = pod_facts(
        [mount("other", "/x")], [mount("cache", "/first")], [mount("cache", "/second", ro=True)]
    )
    seen = seen_at(facts, parse_publish(ROOT, request()))
    assert (seen.root, seen.read_only) == ("/first", True)


def test_without_the_pod_nothing_is_relocated() -> None:
    assert seen_at(None, parse_publish(ROOT, request())).root is None
