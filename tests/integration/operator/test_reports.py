"""Node reports fold into counts and phase, and rolling a digest over keeps the old one for who needs it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from gkm.kube.errors import ConflictError
from gkm.operator.objects import GKM_CACHES, Cache, uid_of
from support.operating import AGENT, IMPATIENT, Bench, condition, delivered, operating, phase, pods, push


def counts(cache: Cache) -> tuple[int, int, int, int, int, int]:
    """Nodes, in use, not in use, error; pods running, outdated."""
    assert cache.status is not None
    c = cache.status.counts
    return (
        c.node_cnt, c.node_in_use_cnt, c.node_not_in_use_cnt, c.node_error_cnt,
        c.pod_running_cnt, c.pod_outdated_cnt,
    )  # fmt: skip


async def test_counts_and_phase_follow_the_reports(bench: Bench, image: str, tmp_path: Path) -> None:
    digest = await push(image, tmp_path, b"one")
    a, b = f"a-{bench.namespace}", f"b-{bench.namespace}"
    for node in (a, b):
        await bench.node(node)
    async with operating(bench.cluster):
        cache = await bench.make("counted", image)
        cache = await bench.until(cache, lambda c: condition(c, "Ready")[1] == "NoCompatibleNode")
        await bench.report(cache, a, {digest: {"state": "Staging"}})
        cache = await bench.until(cache, lambda c: phase(c) == "Downloading")
        assert condition(cache, "Ready") == ("False", "Staging")
        await bench.report(cache, a, {digest: {"state": "Staged"}})
        cache = await bench.until(cache, lambda c: phase(c) == "Extracted")
        assert condition(cache, "Ready") == ("True", "Staged")
        await bench.report(cache, a, {digest: {"state": "Staged", "pods": pods("x", "y")}})
        cache = await bench.until(cache, lambda c: phase(c) == "Running")
        assert counts(cache) == (1, 1, 0, 0, 2, 0)
        error = {"reason": "DiskFull", "message": "no room", "time": "2026-01-01T00:00:00Z"}
        await bench.report(cache, b, {digest: {"state": "Failed", "lastError": error}})
        cache = await bench.until(cache, lambda c: phase(c) == "Error")
        assert counts(cache) == (2, 1, 0, 1, 2, 0)
        assert condition(cache, "Ready") == ("False", "NodeError")
        assert cache.status is not None
        assert cache.status.last_error is not None
        assert cache.status.last_error.reason == "DiskFull"
        bench.cluster.kubectl("delete", "node", b)
        await bench.report(cache, a, {digest: {"state": "Staged"}})
        cache = await bench.until(cache, lambda c: phase(c) == "Extracted")
        assert counts(cache) == (1, 0, 1, 0, 0, 0)
        assert cache.status is not None
        assert cache.status.last_error is None


async def test_reports_on_a_cluster_cache_count_too(bench: Bench, image: str, tmp_path: Path) -> None:
    digest = await push(image, tmp_path, b"one")
    node = f"node-{bench.namespace}"
    await bench.node(node)
    async with operating(bench.cluster):
        cache = await bench.make(f"wide-{bench.namespace}", image, cluster=True)
        cache = await bench.until(cache, delivered)
        await bench.report(cache, node, {digest: {"state": "Staged", "pods": pods("x")}})
        cache = await bench.until(cache, lambda c: phase(c) == "Running")
        await bench.report(cache, node, {})
        await bench.delete(cache)
        await bench.eventually(lambda: bench.grant(cache), lambda found: found is None)


async def test_a_node_that_stays_not_ready_stops_counting_without_any_further_change(
    bench: Bench, image: str, tmp_path: Path
) -> None:
    digest = await push(image, tmp_path, b"one")
    node = f"node-{bench.namespace}"
    await bench.node(node)
    async with operating(bench.cluster, replace(IMPATIENT, node_grace_seconds=3)):
        cache = await bench.make("lonely", image)
        cache = await bench.until(cache, delivered)
        await bench.report(cache, node, {digest: {"state": "Staged", "pods": pods("x")}})
        cache = await bench.until(cache, lambda c: phase(c) == "Running")
        await bench.not_ready(node)
        cache = await bench.until(cache, lambda c: counts(c) == (0, 0, 0, 0, 0, 0))


async def test_an_old_digest_stays_granted_while_it_is_needed(
    bench: Bench, image: str, tmp_path: Path
) -> None:
    old = await push(image, tmp_path, b"old")
    node = f"node-{bench.namespace}"
    await bench.node(node)

    async def granted(cache: Cache, *digests: str) -> Any:
        return await bench.eventually(lambda: bench.grant(cache), lambda found: found.spec.digests == digests)

    async with operating(bench.cluster):
        cache = await bench.make("rolled", image)
        cache = await bench.until(cache, delivered)
        await bench.report(cache, node, {old: {"state": "Staged", "pods": pods("x")}})
        cache = await bench.until(cache, lambda c: phase(c) == "Running")
        new = await push(image, tmp_path, b"new")
        cache = await bench.edit(cache, waitSeconds=31)
        grant = await granted(cache, new, old)
        assert grant.spec.image.endswith(new)
        cache = await bench.until(cache, lambda c: phase(c) == "Outdated")
        assert counts(cache) == (1, 1, 0, 0, 1, 1)
        # Not staged yet, and no pod: new pods get the old one until it is.
        await bench.report(cache, node, {old: {"state": "Staged"}, new: {"state": "Staging"}})
        cache = await bench.until(cache, lambda c: counts(c) == (1, 0, 1, 0, 0, 0))
        await granted(cache, new, old)
        await bench.report(
            cache, node, {old: {"state": "Staged", "pods": pods("x")}, new: {"state": "Staged"}}
        )
        cache = await bench.until(cache, lambda c: condition(c, "Ready")[0] == "True")
        await granted(cache, new, old)
        await bench.report(cache, node, {new: {"state": "Staged", "pods": pods("z")}})
        await granted(cache, new)


async def test_a_change_of_counts_alone_waits_and_travels_with_any_other(
    bench: Bench, image: str, tmp_path: Path
) -> None:
    digest = await push(image, tmp_path, b"one")
    node = f"node-{bench.namespace}"
    await bench.node(node)
    async with operating(bench.cluster, replace(IMPATIENT, count_seconds=3600)):
        cache = await bench.make("slow", image)
        cache = await bench.until(cache, delivered)
        mark = bench.cluster.audit_mark()
        for number in range(1, 6):
            await bench.report(
                cache, node, {digest: {"state": "Staged", "pods": pods(*map(str, range(number)))}}
            )
        # A change of the spec is written at once, and with it what was held back.
        cache = await bench.edit(cache, waitSeconds=31)
        cache = await bench.until(
            cache, lambda c: c.status.observed_generation == c.metadata.generation and counts(c)[4] == 5
        )
    only_counts = [
        event for event in bench.cluster.audit(mark)
        if event.user_agent == AGENT and event.response_status.code == 200
        and event.object_ref is not None
        and (event.object_ref.resource, event.object_ref.subresource) == ("gkmcaches", "status")
        and set(event.request_object["status"]) <= {"counts", "phase", "lastUpdated"}
    ]  # fmt: skip
    assert len(only_counts) <= 1


async def test_forged_status_and_annotations_are_put_right_and_change_no_grant(
    bench: Bench, image: str, tmp_path: Path
) -> None:
    digest = await push(image, tmp_path, b"one")
    forged = f"sha256:{'e' * 64}"
    async with operating(bench.cluster):
        cache = await bench.make("forged", image)
        cache = await bench.until(cache, delivered)
        grant = await bench.grant(cache)
        cache = await bench.client.patch(
            GKM_CACHES, "forged", {"metadata": {"annotations": {"gkm.io/resolvedDigest": forged}}},
            bench.namespace,
        )  # fmt: skip
        cache = await bench.until(
            cache, lambda c: (c.metadata.annotations or {})["gkm.io/resolvedDigest"] == digest
        )
        await bench.eventually(lambda: _forge(bench, cache, forged))
        cache = await bench.until(
            cache, lambda c: c.status.resolved_digest == digest and c.status.candidate_digest is None
        )
        assert await bench.grant(cache) == grant


async def _forge(bench: Bench, cache: Cache, digest: str) -> bool:
    now = await bench.again(cache)
    body = {
        "metadata": {"resourceVersion": now.metadata.resource_version},
        "status": {"resolvedDigest": digest, "candidateDigest": digest},
    }
    try:
        await bench.client.patch(
            GKM_CACHES, now.metadata.name or "", body, bench.namespace, subresource="status"
        )
    except ConflictError:
        return False
    return True


async def test_at_rest_nothing_is_written(bench: Bench, image: str, tmp_path: Path) -> None:
    digest = await push(image, tmp_path, b"one")
    node = f"node-{bench.namespace}"
    await bench.node(node)
    async with operating(bench.cluster):
        made = [await bench.make(f"rest-{number}", image) for number in range(5)]
        for cache in made:
            await bench.until(cache, delivered)
            await bench.report(cache, node, {digest: {"state": "Staged", "pods": pods("x")}})
        for cache in made:
            await bench.until(cache, lambda c: phase(c) == "Running")
        mark = bench.cluster.audit_mark()
    # A new operator looks at everything once more.
    async with operating(bench.cluster):
        sentinel = await bench.make("sentinel", image)
        await bench.until(sentinel, delivered)
    ours = {cache.metadata.name for cache in made} | {uid_of(cache) for cache in made}
    writes = [
        (event.verb, event.object_ref.resource, event.object_ref.name)
        for event in bench.cluster.audit(mark)
        if event.user_agent == AGENT and event.verb not in ("get", "list", "watch")
        and event.object_ref is not None and event.object_ref.resource != "events"
        and any(part and part in event.request_uri for part in ours)
    ]  # fmt: skip
    assert writes == []
