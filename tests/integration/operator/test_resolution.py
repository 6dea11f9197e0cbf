"""Tags, registries and gates: what becomes of a cache whose image is not there, private, moved or refused."""

import asyncio
import base64
import json
from dataclasses import replace
from pathlib import Path

from prometheus_client import CollectorRegistry

from gkm.images.auth_config import Credentials
from gkm.operator.objects import SECRETS
from gkm.operator.pull_secrets import HostCredentials
from gkm.operator.world import secret_name
from gkm.trust.gate import Default, DefaultGate
from support.operating import IMPATIENT, Bench, condition, delivered, operating, phase, push
from support.registry import PASSWORD, USERNAME, running_registry
from support.waiting import until


def docker_config(host: str, password: str = PASSWORD) -> dict[str, object]:
    """`data` and type of a pull secret, with another registry's entry in it."""
    auth = base64.b64encode(f"{USERNAME}:{password}".encode()).decode()
    other = base64.b64encode(b"x:y").decode()
    document = {"auths": {host: {"auth": auth}, "other.test": {"auth": other}}}
    data = base64.b64encode(json.dumps(document).encode()).decode()
    return {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": data}}


async def test_an_image_that_appears_later_is_found(bench: Bench, image: str, tmp_path: Path) -> None:
    registry = CollectorRegistry()

    def measured(name: str, **labels: str) -> float:
        return registry.get_sample_value(name, labels) or 0.0

    async with operating(bench.cluster, registry=registry):
        cache = await bench.make("later", image)
        cache = await bench.until(cache, lambda c: condition(c, "Resolved") == ("False", "NotFound"))
        assert cache.status is not None
        assert cache.status.last_error is not None
        assert phase(cache) == "Error"
        failed = measured("gkm_resolve_failures_total", reason="NotFound")
        assert failed >= 1
        await until(lambda: measured("gkm_caches", kind="GKMCache", phase="Error") >= 1)
        await push(image, tmp_path, b"one")
        cache = await bench.until(cache, delivered)
        assert measured("gkm_resolve_seconds_count") > failed
    assert cache.status is not None
    assert cache.status.last_error is None


async def test_a_registry_that_is_down_keeps_the_last_digest_serving(bench: Bench, tmp_path: Path) -> None:
    with running_registry(tmp_path) as registry:
        image = f"{registry.host}/caches/down:v1"
        digest = await push(image, tmp_path, b"one")
        async with operating(bench.cluster):
            cache = await bench.make("down", image)
            await bench.until(cache, delivered)
    async with operating(bench.cluster):
        cache = await bench.edit(cache, waitSeconds=31)
        cache = await bench.until(cache, lambda c: condition(c, "Resolved") == ("False", "Unavailable"))
        grant = await bench.grant(cache)
    assert grant.spec.digests == (digest,)
    assert grant.spec.wait_seconds == 31
    assert cache.status is not None
    assert cache.status.resolved_digest == digest


async def test_a_moved_tag_is_not_followed_within_a_generation_also_by_another_process(
    bench: Bench, image: str, tmp_path: Path
) -> None:
    old = await push(image, tmp_path, b"old")
    async with operating(bench.cluster):
        cache = await bench.make("moved", image)
        cache = await bench.until(cache, delivered)
    new = await push(image, tmp_path, b"new")
    async with operating(bench.cluster):
        sentinel = await bench.make("sentinel", image)
        sentinel = await bench.until(sentinel, delivered)
        assert (await bench.grant(sentinel)).spec.digests == (new,)
        assert (await bench.grant(cache)).spec.digests == (old,)
        cache = await bench.edit(cache, waitSeconds=31)
        await bench.eventually(lambda: bench.grant(cache), lambda found: found.spec.digests[0] == new)


async def test_what_the_gate_refuses_is_not_granted_and_withdrawn_where_it_was(
    bench: Bench, image: str, tmp_path: Path
) -> None:
    digest = await push(image, tmp_path, b"one")
    async with operating(bench.cluster):
        cache = await bench.make("refused", image)
        cache = await bench.until(cache, delivered)
    async with operating(bench.cluster, gate=DefaultGate(Default.ENFORCE)):
        cache = await bench.until(cache, lambda c: condition(c, "Verified") == ("False", "NoPolicy"))
        grant = await bench.grant(cache)
    assert grant.spec.digests == ()
    assert grant.spec.image is None
    assert cache.status is not None
    assert cache.status.resolved_digest is None
    assert cache.status.candidate_digest == digest


async def test_a_private_image_is_read_with_its_pull_secret_which_is_mirrored_reduced(
    bench: Bench, tmp_path: Path
) -> None:
    with running_registry(tmp_path, htpasswd=True) as registry:
        image = f"{registry.host}/caches/private:v1"
        mine = HostCredentials(registry.host, Credentials(USERNAME, PASSWORD))
        await push(image, tmp_path, b"one", mine)
        async with operating(bench.cluster, replace(IMPATIENT, secret_seconds=0.2)):
            cache = await bench.make("private", image, imagePullSecrets=[{"name": "pull"}])
            cache = await bench.until(cache, lambda c: condition(c, "Resolved")[1] == "PullSecretUnusable")
            metadata = {"name": "pull", "namespace": bench.namespace}
            wrong = {"metadata": metadata, **docker_config(registry.host, "wrong")}
            await bench.client.create(SECRETS, wrong)
            cache = await bench.until(cache, lambda c: condition(c, "Resolved")[1] == "Unauthorized")
            right = docker_config(registry.host)["data"]
            await bench.client.patch(SECRETS, "pull", {"data": right}, bench.namespace)
            cache = await bench.until(cache, delivered)
            grant = await bench.grant(cache)
            uid = cache.metadata.uid or ""
            assert grant.spec.pull_secret == secret_name(uid)
            mirrored = await bench.find(SECRETS, secret_name(uid), "gkm-system")
            document = json.loads(base64.b64decode(mirrored.data[".dockerconfigjson"]))
            assert list(document["auths"]) == [registry.host]
            # A host without a dot passes the schema; nothing guesses which registry is meant.
            cache = await bench.edit(cache, image="registry/kernels:v1")
            cache = await bench.until(cache, lambda c: condition(c, "Resolved")[1] == "InvalidReference")
            assert (await bench.grant(cache)).spec.digests == grant.spec.digests
            cache = await bench.edit(cache, image=image)
            cache = await bench.until(cache, delivered)
            cache = await bench.edit(cache, imagePullSecrets=None)
            await bench.eventually(
                lambda: bench.find(SECRETS, secret_name(uid), "gkm-system"), lambda found: found is None
            )
            await bench.eventually(lambda: bench.grant(cache), lambda found: found.spec.pull_secret is None)


async def test_a_tag_is_followed_at_its_interval(bench: Bench, image: str, tmp_path: Path) -> None:
    await push(image, tmp_path, b"old")
    async with operating(bench.cluster):
        cache = await bench.make("followed", image, refreshSeconds=10)
        cache = await bench.until(cache, delivered)
        new = await push(image, tmp_path, b"new")
        async with asyncio.timeout(30):
            while (await bench.grant(cache)).spec.digests[0] != new:
                await asyncio.sleep(0.2)
