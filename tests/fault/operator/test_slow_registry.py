"""Registries that stall, and a gate that fails: other caches are resolved meanwhile, and the reason is told."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

from gkm.api.meta import ConditionStatus
from gkm.base.errors import GKMError
from gkm.images.options import ClientOptions
from gkm.operator.attempts import Failed, Judged, Request
from gkm.operator.resolver import Resolver
from gkm.operator.settings import Settings
from gkm.trust.gate import Candidate, Default, DefaultGate, Gate, Judgement
from support.cache_facts import A, resolution
from support.fault_server import FaultServer, Reply, answer, fault_server, stall
from support.fault_server import Request as Asked
from support.images import small_image
from support.waiting import until

IMAGE = small_image(b"layer")
SETTINGS = Settings(registries=ClientOptions(environ={}), resolutions=2, resolve_seconds=60)


def serve(asked: Asked) -> Reply:
    """A registry with one image, which stalls for every repository called ``slow``."""
    if "/slow/" in asked.path:
        return stall(200, b"{}", 1)
    if "/manifests/" in asked.path:
        return answer(200, IMAGE.manifest, {"content-type": "application/vnd.oci.image.manifest.v1+json"})
    for digest, data in IMAGE.blobs.items():
        if asked.path.endswith(digest):
            return answer(200, data)
    return answer(200)


@contextlib.asynccontextmanager
async def resolving(
    settings: Settings = SETTINGS, gate: Gate | None = None
) -> AsyncIterator[tuple[Resolver, FaultServer]]:
    """A resolver at work, beside the registry."""
    async with fault_server(serve) as server:
        resolver = Resolver(gate or DefaultGate(Default.WARN), settings)
        task = asyncio.create_task(resolver.run())
        try:
            yield resolver, server
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def request(server: FaultServer, repository: str) -> Request:
    return Request(generation=1, image=f"{server.host}/{repository}:v1", namespace="team")


def ended(resolver: Resolver, uid: str) -> bool:
    attempt = resolver.attempt(uid)
    return attempt is not None and not attempt.running


async def test_a_stalled_registry_holds_up_no_other_cache() -> None:
    async with resolving() as (resolver, server):
        woken = asyncio.Event()
        resolver.begin("slow", request(server, "slow/one"), lambda: None)
        await until(lambda: any("/slow/" in path for path in server.paths("GET")))
        resolver.begin("fast", request(server, "fast/one"), woken.set)
        await woken.wait()
        attempt = resolver.attempt("fast")
        assert attempt is not None
        assert isinstance(attempt.outcome, Judged)
        assert attempt.outcome.resolution.digest == IMAGE.digest
        assert not ended(resolver, "slow")


async def test_a_registry_that_does_not_end_is_given_up_and_named() -> None:
    async with resolving(replace(SETTINGS, resolve_seconds=0.2)) as (resolver, server):
        resolver.begin("slow", request(server, "slow/one"), lambda: None)
        await until(lambda: ended(resolver, "slow"))
        attempt = resolver.attempt("slow")
    assert attempt is not None
    assert isinstance(attempt.outcome, Failed)
    assert attempt.outcome.reason == "RegistryTimeout"
    assert "slow/one" in attempt.outcome.message
    assert attempt.wait > 0


async def test_a_cache_that_went_away_meanwhile_wakes_nobody() -> None:
    async with resolving() as (resolver, server):
        woken: list[str] = []
        resolver.begin("a", request(server, "fast/a"), lambda: woken.append("a"))
        resolver.forget("a")
        resolver.begin("b", request(server, "fast/b"), lambda: woken.append("b"))
        await until(lambda: woken)
        await until(lambda: len(server.paths("GET")) >= 4)
    assert woken == ["b"]
    assert resolver.attempt("a") is None


class BrokenGate:
    """A gate that cannot tell."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def judge(self, candidate: Candidate) -> Judgement:
        raise self._error


async def test_a_gate_that_fails_grants_nothing_and_ends_no_worker() -> None:
    for error, reason in ((GKMError("no answer"), "GKMError"), (ValueError("a bug"), "InternalError")):
        async with resolving(gate=BrokenGate(error)) as (resolver, server):
            for uid in ("a", "b", "c"):
                resolver.begin(uid, request(server, "fast/one"), lambda: None)
            await until(lambda: all(ended(resolver, uid) for uid in ("a", "b", "c")))
            attempt = resolver.attempt("c")
        assert attempt is not None
        assert isinstance(attempt.outcome, Failed)
        assert attempt.outcome.reason == reason


async def test_what_was_resolved_before_a_restart_is_judged_without_asking_the_registry() -> None:
    async with resolving() as (resolver, server):
        known = replace(request(server, "slow/one"), known=resolution(A))
        resolver.begin("a", known, lambda: None)
        await until(lambda: ended(resolver, "a"))
        attempt = resolver.attempt("a")
        assert server.requests == []
    assert attempt is not None
    assert isinstance(attempt.outcome, Judged)
    assert attempt.outcome.judgement.verified is ConditionStatus.UNKNOWN
