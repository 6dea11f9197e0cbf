"""Claims and volumes as namespaces come and go, and as people meddle with them."""

import asyncio
import uuid
from dataclasses import replace
from pathlib import Path

from gkm.kube.errors import ForbiddenError
from gkm.operator.objects import CLAIMS
from support.operating import IMPATIENT, Bench, condition, delivered, operating, push


def _claim(name: str, namespace: str) -> dict[str, object]:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


async def test_a_foreign_claim_is_refused_untouched_and_replaced_once_it_is_gone(
    bench: Bench, image: str, tmp_path: Path
) -> None:
    await push(image, tmp_path, b"one")
    foreign = await bench.client.create(CLAIMS, _claim("mine", bench.namespace))
    async with operating(bench.cluster):
        cache = await bench.make("mine", image)
        cache = await bench.until(cache, lambda c: condition(c, "Delivered") == ("False", "ForeignClaim"))
        now = await bench.claim("mine")
        assert now is not None
        assert now.metadata.uid == foreign.metadata.uid
        assert now.status.phase == "Pending"
        assert await bench.volumes(cache) == []
        await bench.client.delete(CLAIMS, "mine", bench.namespace)
        await bench.until(cache, delivered)


async def test_a_claim_deleted_by_hand_comes_back(bench: Bench, image: str, tmp_path: Path) -> None:
    await push(image, tmp_path, b"one")
    async with operating(bench.cluster):
        cache = await bench.make("back", image)
        cache = await bench.until(cache, delivered)
        before = await bench.claim("back")
        assert before is not None
        (volume_before,) = await bench.volumes(cache)
        await bench.client.delete(CLAIMS, "back", bench.namespace)
        after = await bench.eventually(
            lambda: bench.claim("back"),
            lambda claim: claim and claim.metadata.uid != before.metadata.uid
            and claim.status.phase == "Bound",
        )  # fmt: skip
        (volume,) = await bench.volumes(cache)
    # Released volumes are never bound again: this one is another.
    assert volume.metadata.uid != volume_before.metadata.uid
    assert volume.spec.claim_ref is not None
    assert volume.spec.claim_ref.uid == after.metadata.uid


async def test_a_volume_deleted_by_hand_comes_back(bench: Bench, image: str, tmp_path: Path) -> None:
    await push(image, tmp_path, b"one")
    async with operating(bench.cluster):
        cache = await bench.make("lost", image)
        cache = await bench.until(cache, delivered)
        (before,) = await bench.volumes(cache)
        bench.cluster.kubectl("delete", "pv", before.metadata.name, "--wait=false")
        bench.cluster.kubectl(
            "patch", "pv", before.metadata.name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}',
            check=False,
        )  # fmt: skip
        await bench.eventually(
            lambda: bench.volumes(cache),
            lambda found: [v.metadata.uid for v in found] not in ([], [before.metadata.uid]),
        )
        await bench.eventually(
            lambda: bench.claim("lost"), lambda claim: claim and claim.status.phase == "Bound"
        )


async def test_workload_namespaces_may_come_late_and_be_taken_off_the_list(
    bench: Bench, image: str, tmp_path: Path
) -> None:
    await push(image, tmp_path, b"one")
    late = f"late-{uuid.uuid4().hex[:8]}"
    async with operating(bench.cluster):
        cache = await bench.make(
            f"wide-{bench.namespace}", image, cluster=True, workloadNamespaces=[bench.namespace, late]
        )
        name = cache.metadata.name or ""
        cache = await bench.until(cache, lambda c: condition(c, "Delivered") == ("False", "NoNamespace"))
        await bench.eventually(lambda: bench.claim(name), lambda c: c and c.status.phase == "Bound")
        bench.cluster.kubectl("create", "namespace", late)
        cache = await bench.until(cache, delivered)
        assert cache.status is not None
        assert set(cache.status.pvc_status or ()) == {bench.namespace, late}
        cache = await bench.edit(cache, workloadNamespaces=[bench.namespace])
        await bench.eventually(lambda: bench.claim(name, late), lambda claim: claim is None)
        await bench.eventually(lambda: bench.volumes(cache), lambda found: len(found) == 1)
        grant = await bench.eventually(
            lambda: bench.grant(cache), lambda found: found.spec.namespaces == (bench.namespace,)
        )
        assert grant is not None
        await bench.until(cache, lambda c: set(c.status.pvc_status or ()) == {bench.namespace})
        bench.cluster.kubectl("delete", "namespace", late, "--wait=false")
        await bench.delete(cache)
        await bench.eventually(lambda: bench.grant(cache), lambda found: found is None)


async def test_many_namespaces_are_delivered_to_a_few_at_a_time(
    bench: Bench, image: str, tmp_path: Path
) -> None:
    await push(image, tmp_path, b"one")
    others = [f"{bench.namespace}-{number}" for number in range(3)]
    for other in others:
        bench.cluster.kubectl("create", "namespace", other)
    async with operating(bench.cluster, replace(IMPATIENT, volume_writes=1)):
        name = f"wide-{bench.namespace}"
        cache = await bench.make(name, image, cluster=True, workloadNamespaces=[bench.namespace, *others])
        cache = await bench.until(cache, delivered)
        assert len(await bench.volumes(cache)) == 4
        await bench.delete(cache)
        await bench.eventually(lambda: bench.grant(cache), lambda found: found is None)
        assert await bench.volumes(cache) == []
    for other in others:
        bench.cluster.kubectl("delete", "namespace", other, "--wait=false")


async def test_a_namespace_with_a_cache_in_it_can_be_deleted(
    bench: Bench, image: str, tmp_path: Path
) -> None:
    await push(image, tmp_path, b"one")
    async with operating(bench.cluster):
        cache = await bench.make("doomed", image)
        cache = await bench.until(cache, delivered)
        # Beside the loop, in which the operator runs.
        await asyncio.to_thread(
            bench.cluster.kubectl, "delete", "namespace", bench.namespace, "--timeout=60s"
        )
        await bench.eventually(lambda: bench.grant(cache), lambda found: found is None)
        await bench.eventually(lambda: bench.volumes(cache), lambda found: found == [])
    bench.cluster.kubectl("create", "namespace", bench.namespace)


async def test_two_caches_of_one_name_do_not_take_each_others_claim(
    bench: Bench, image: str, tmp_path: Path
) -> None:
    await push(image, tmp_path, b"one")
    name = f"same-{bench.namespace}"
    async with operating(bench.cluster):
        first = await bench.make(name, image)
        first = await bench.until(first, delivered)
        second = await bench.make(name, image, cluster=True, workloadNamespaces=[bench.namespace])
        second = await bench.until(second, lambda c: condition(c, "Delivered")[1] == "ForeignClaim")
        await bench.delete(first)
        second = await bench.until(second, delivered)
        await bench.delete(second)
        await bench.eventually(lambda: bench.grant(second), lambda found: found is None)


async def test_what_a_quota_refuses_is_told_and_tried_again(bench: Bench, image: str, tmp_path: Path) -> None:
    await push(image, tmp_path, b"one")
    quota = ("quota", "none", "--hard=persistentvolumeclaims=0", "-n", bench.namespace)
    bench.cluster.kubectl("create", *quota)
    await bench.eventually(lambda: _refused(bench))
    async with operating(bench.cluster):
        cache = await bench.make("tight", image)
        cache = await bench.until(cache, lambda c: condition(c, "Resolved")[0] == "True")
        cache = await bench.until(cache, lambda c: condition(c, "Delivered") == ("False", "Forbidden"))
        bench.cluster.kubectl("delete", "quota", "none", "-n", bench.namespace)
        await bench.until(cache, delivered)


async def _refused(bench: Bench) -> bool:
    """Whether the quota holds already; kube-controller-manager has to fill in its status first."""
    try:
        await bench.client.create(CLAIMS, _claim("probe", bench.namespace))
    except ForbiddenError:
        return True
    await bench.client.delete(CLAIMS, "probe", bench.namespace)
    return False
