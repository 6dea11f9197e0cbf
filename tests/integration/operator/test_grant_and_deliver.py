"""From a cache to a grant, a bound PVC and a status: the real API server binds, a real registry answers."""

from pathlib import Path

import msgspec

from gkm.api.names import Finalizer
from gkm.api.values import Delivery, Phase
from gkm.operator.objects import uid_of
from support.operating import Bench, condition, delivered, operating, push


async def test_a_cache_is_granted_and_its_claim_is_bound(bench: Bench, image: str, tmp_path: Path) -> None:
    digest = await push(image, tmp_path, b"one")
    async with operating(bench.cluster):
        cache = await bench.make(
            "kernels", image, writeLimit="2Gi", podTemplate={"spec": {"nodeSelector": {"gpu": "yes"}}}
        )
        cache = await bench.until(cache, delivered)
        grant = await bench.grant(cache)
    assert msgspec.json.decode(msgspec.json.encode(grant.spec)) == {
        "cache": {
            "kind": "GKMCache", "namespace": bench.namespace, "name": "kernels", "uid": uid_of(cache)
        },
        "digests": [digest],
        "image": f"{image.removesuffix(':v1')}@{digest}",
        "targets": [{"backend": "cuda", "arch": "sm_90", "warpSize": 32}],
        "bytes": 4096,
        "namespaces": [bench.namespace],
        "staging": "Eager",
        "nodeSelector": {"gpu": "yes"},
        "whenUnavailable": "StartCold",
        "waitSeconds": 30,
        "writeLimitBytes": 2 << 30,
    }  # fmt: skip
    claim = await bench.claim("kernels")
    assert claim is not None
    assert claim.status.phase == "Bound"
    (volume,) = await bench.volumes(cache)
    assert volume.spec.csi is not None
    assert volume.spec.csi.volume_attributes == {
        "csi.gkm.io/GKMCache": "kernels",
        "csi.gkm.io/namespace": bench.namespace,
    }
    assert cache.status is not None
    assert cache.status.resolved_digest == digest
    assert cache.status.delivery == Delivery.CSI
    assert condition(cache, "Verified") == ("Unknown", "NotConfigured")
    assert Finalizer.GKM_CACHE in (cache.metadata.finalizers or ())
    assert (cache.metadata.annotations or {})["gkm.io/resolvedDigest"] == digest
    assert (cache.metadata.annotations or {})["gkm.io/cache-size-bytes"] == "4096"


async def test_the_claim_and_volume_are_there_before_the_digest(bench: Bench, image: str) -> None:
    async with operating(bench.cluster):
        cache = await bench.make("early", image)
        cache = await bench.until(cache, lambda c: condition(c, "Delivered")[0] == "True")
        cache = await bench.until(cache, lambda c: condition(c, "Resolved") == ("False", "NotFound"))
        grant = await bench.grant(cache)
    assert grant.spec.digests == ()
    assert cache.status is not None
    assert cache.status.phase == Phase.ERROR


async def test_other_deliveries_become_csi_and_say_so(bench: Bench, image: str, tmp_path: Path) -> None:
    await push(image, tmp_path, b"one")
    async with operating(bench.cluster):
        shared = await bench.make("shared", image, accessModes=["ReadWriteOnce", "ReadOnlyMany"])
        by_node = await bench.make("by-node", image, delivery="NodePVC")
        for made in (shared, by_node):
            cache = await bench.until(made, delivered)
            assert condition(cache, "Delivered") == ("True", "DeliveredByCSI")
            assert cache.status is not None
            assert cache.status.delivery == Delivery.CSI


async def test_a_cluster_cache_without_namespaces_is_open_to_all_and_has_no_claims(
    bench: Bench, image: str, tmp_path: Path
) -> None:
    await push(image, tmp_path, b"one")
    async with operating(bench.cluster):
        cache = await bench.make(f"all-{bench.namespace}", image, cluster=True)
        cache = await bench.until(cache, delivered)
        grant = await bench.grant(cache)
        await bench.delete(cache)
        await bench.eventually(lambda: bench.grant(cache), lambda found: found is None)
    assert condition(cache, "Delivered") == ("True", "EveryNamespace")
    assert grant.spec.all_namespaces is True
    assert grant.spec.namespaces is None
    assert await bench.volumes(cache) == []


async def test_events_tell_what_happened(bench: Bench, image: str) -> None:
    async with operating(bench.cluster):
        cache = await bench.make("told", image)
        await bench.until(cache, lambda c: condition(c, "Resolved")[0] == "False")
    told = bench.cluster.kubectl(
        "get", "events", "-n", bench.namespace, "-o",
        "jsonpath={range .items[*]}{.type}/{.reason} {end}",
    )  # fmt: skip
    assert "Normal/Created" in told
    assert "Warning/NotFound" in told
