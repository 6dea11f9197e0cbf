"""A cache goes in order, and nothing of it stays, also where its finalizer was removed by force."""

from pathlib import Path

from gkm.kube.errors import NotFoundError
from gkm.kube.objects import key_of
from gkm.operator.objects import CLAIMS, GKM_CACHES, uid_of
from gkm.operator.volumes import claim_body
from support.operating import Bench, condition, delivered, operating, phase, pods, push


async def test_a_cache_in_use_is_held_until_its_last_warm_pod_is_gone(
    bench: Bench, image: str, tmp_path: Path
) -> None:
    digest = await push(image, tmp_path, b"one")
    node = f"node-{bench.namespace}"
    await bench.node(node)
    async with operating(bench.cluster):
        cache = await bench.make("used", image)
        cache = await bench.until(cache, delivered)
        await bench.report(cache, node, {digest: {"state": "Staged", "pods": pods("a")}})
        cache = await bench.until(cache, lambda c: phase(c) == "Running")
        await bench.delete(cache)
        cache = await bench.until(cache, lambda c: phase(c) == "Deleting")
        assert cache.status is not None
        assert cache.status.counts.pod_deleting_cnt == 1
        grant = await bench.eventually(lambda: bench.grant(cache), lambda found: found.spec.digests == ())
        assert grant.spec.wait_seconds == 0
        claim = await bench.claim("used")
        assert claim is not None
        assert claim.metadata.deletion_timestamp is None
        await bench.report(cache, node, {digest: {"state": "Deleting", "pods": pods("b", cold=True)}})
        await bench.eventually(lambda: _gone(bench, "used"))
    assert await bench.grant(cache) is None
    assert await bench.volumes(cache) == []
    assert await bench.claim("used") is None


async def test_a_node_that_is_gone_holds_no_cache(bench: Bench, image: str, tmp_path: Path) -> None:
    digest = await push(image, tmp_path, b"one")
    node = f"node-{bench.namespace}"
    await bench.node(node)
    async with operating(bench.cluster):
        cache = await bench.make("held", image)
        cache = await bench.until(cache, delivered)
        await bench.report(cache, node, {digest: {"state": "Staged", "pods": pods("a")}})
        await bench.until(cache, lambda c: phase(c) == "Running")
        await bench.delete(cache)
        await bench.until(cache, lambda c: phase(c) == "Deleting")
        bench.cluster.kubectl("delete", "node", node)
        await bench.eventually(lambda: _gone(bench, "held"))


async def test_an_unresolvable_cache_can_be_deleted(bench: Bench, image: str) -> None:
    async with operating(bench.cluster):
        cache = await bench.make("never", image)
        await bench.until(cache, lambda c: condition(c, "Resolved")[0] == "False")
        await bench.delete(cache)
        await bench.eventually(lambda: _gone(bench, "never"))
        assert await bench.grant(cache) is None


async def test_what_a_force_removed_cache_left_is_taken_away(
    bench: Bench, image: str, tmp_path: Path
) -> None:
    await push(image, tmp_path, b"one")
    async with operating(bench.cluster):
        cache = await bench.make("forced", image)
        cache = await bench.until(cache, delivered)
    # Deleted while no operator ran, and its finalizer removed by hand.
    await bench.client.patch(GKM_CACHES, "forced", {"metadata": {"finalizers": None}}, bench.namespace)
    await bench.delete(cache)
    again = await bench.make("forced", image)
    async with operating(bench.cluster):
        await bench.eventually(lambda: bench.grant(cache), lambda found: found is None)
        await bench.eventually(lambda: bench.volumes(cache), lambda found: found == [])
        again = await bench.until(again, delivered)
        assert len(await bench.volumes(again)) == 1


async def test_a_claim_with_a_forged_label_holds_nothing_up_and_is_left_alone(
    bench: Bench, image: str, tmp_path: Path
) -> None:
    await push(image, tmp_path, b"one")
    async with operating(bench.cluster):
        cache = await bench.make("forged", image)
        cache = await bench.until(cache, delivered)
        body = claim_body(key_of(cache), uid_of(cache), bench.namespace)
        body["metadata"]["name"] = "theirs"
        await bench.client.create(CLAIMS, body)
        await bench.delete(cache)
        await bench.eventually(lambda: _gone(bench, "forged"))
        assert await bench.claim("theirs") is not None


async def _gone(bench: Bench, name: str) -> bool:
    try:
        await bench.client.get(GKM_CACHES, name, bench.namespace)
    except NotFoundError:
        return True
    return False
