"""Each failure of a request is the error that its caller can act on, and the fence lets nothing slip."""

import asyncio
from pathlib import Path

import lightkube
import msgspec
import pytest

from gkm.base.errors import UsageError
from gkm.kube.client import Client, Patch
from gkm.kube.connection import Connection, load_config
from gkm.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConfigurationError,
    ConflictError,
    CredentialsError,
    NotFoundError,
    NotLeaderError,
    ProtocolError,
    UnavailableError,
    UnreachableError,
)
from gkm.kube.fence import Fence
from gkm.kube.objects import ConfigMap, ObjectMeta
from gkm.kube.resources import CONFIG_MAPS
from support.fault_apiserver import Fault, FaultServer
from support.waiting import until


def config_map(name: str, version: str = "", **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="ns", resource_version=version), data=data)


async def test_objects_are_created_read_patched_listed_and_deleted(server: FaultServer) -> None:
    server.page_size = 2
    async with server.connect() as client:
        made = await client.create(CONFIG_MAPS, config_map("a", x="1"))
        assert made.metadata.uid
        assert (await client.get(CONFIG_MAPS, "a", "ns")).data == {"x": "1"}
        patched = await client.patch(CONFIG_MAPS, "a", {"data": {"y": "2"}}, "ns")
        assert patched.data == {"x": "1", "y": "2"}
        for name in "bcd":
            await client.create(CONFIG_MAPS, config_map(name))
        assert [o.metadata.name for o in await client.list_all(CONFIG_MAPS, "ns")] == list("abcd")
        await client.delete(CONFIG_MAPS, "a", "ns", uid=made.metadata.uid)
        with pytest.raises(NotFoundError):
            await client.get(CONFIG_MAPS, "a", "ns")
    deletion = msgspec.json.decode(next(a.body for a in server.asked if a.method == "DELETE"))
    assert deletion == {"propagationPolicy": "Background", "preconditions": {"uid": made.metadata.uid}}
    created = msgspec.json.decode(next(a.body for a in server.asked if a.method == "POST"))
    assert (created["apiVersion"], created["kind"]) == ("v1", "ConfigMap")
    assert server.asked[0].query == {"fieldManager": "test"}


async def test_refusals_are_told_apart(server: FaultServer) -> None:
    old = server.put("a")["metadata"]["resourceVersion"]
    server.put("a", data={"x": "2"})
    async with server.connect() as client:
        with pytest.raises(AlreadyExistsError):
            await client.create(CONFIG_MAPS, config_map("a"))
        with pytest.raises(ConflictError) as refused:
            await client.patch(CONFIG_MAPS, "a", {"metadata": {"resourceVersion": old}}, "ns")
        assert (refused.value.code, refused.value.word) == (409, "Conflict")
        assert "PATCH /api/v1/namespaces/ns/configmaps/a: 409: planned 409" in str(refused.value)


@pytest.mark.parametrize("plain", [False, True], ids=["status", "proxy-page-without-content-type"])
async def test_a_broken_server_is_unavailable_whatever_its_page_looks_like(
    server: FaultServer, plain: bool
) -> None:
    server.plan.append(Fault("status", code=502, plain=plain))
    async with server.connect() as client:
        with pytest.raises(UnavailableError, match="sorry" if plain else "planned"):
            await client.list_all(CONFIG_MAPS)


async def test_no_server_is_unreachable() -> None:
    config = lightkube.KubeConfig.from_server("http://127.0.0.1:9").get()
    assert config is not None
    async with Client(Connection(config, user_agent="t", attempts=1), field_manager="t") as client:
        with pytest.raises(UnreachableError, match="ConnectError"):
            await client.get(CONFIG_MAPS, "a", "ns")


async def test_an_answer_of_another_shape_is_a_protocol_error(server: FaultServer) -> None:
    server.put("a", data=7)
    async with server.connect() as client:
        with pytest.raises(ProtocolError, match="ConfigMap"):
            await client.get(CONFIG_MAPS, "a", "ns")


async def test_a_status_write_must_carry_a_resource_version(server: FaultServer) -> None:
    async with server.connect() as client:
        with pytest.raises(UsageError, match="resourceVersion"):
            await client.apply_status(CONFIG_MAPS, config_map("a"))
        with pytest.raises(UsageError, match="resourceVersion"):
            await client.patch(CONFIG_MAPS, "a", {"status": {}}, "ns", subresource="status")
        with pytest.raises(UsageError, match="resourceVersion"):
            await client.patch(CONFIG_MAPS, "a", [], "ns", subresource="status", strategy=Patch.JSON)
    assert server.asked == []


async def test_a_closed_fence_stops_what_mutates_and_nothing_else(server: FaultServer) -> None:
    server.put("a")
    fence = Fence(clock := Clock())
    async with server.connect(fence) as client:
        assert (await client.get(CONFIG_MAPS, "a", "ns")).metadata.name == "a"
        for attempt in (
            client.create(CONFIG_MAPS, config_map("b")),
            client.apply(CONFIG_MAPS, config_map("b")),
            client.patch(CONFIG_MAPS, "a", {}, "ns"),
            client.delete(CONFIG_MAPS, "a", "ns"),
        ):
            with pytest.raises(NotLeaderError, match="was not sent"):
                await attempt
        fence.open_until(clock.now + 5)
        await client.create(CONFIG_MAPS, config_map("b"))
        clock.now += 5
        with pytest.raises(NotLeaderError):
            await client.create(CONFIG_MAPS, config_map("c"))
    assert [a.method for a in server.asked] == ["GET", "POST"]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class CountdownFence(Fence):
    """Closes by itself after so many looks, as time might between any two steps of sending."""

    def __init__(self, looks: int) -> None:
        super().__init__(Clock())
        self.open_until(1.0)
        self.looks = looks

    def check(self, request: str) -> None:
        self.looks -= 1
        if self.looks < 0:
            self.close()
        super().check(request)


@pytest.mark.parametrize("looks", [0, 1, 2])
async def test_a_fence_that_closes_while_a_request_is_being_sent_keeps_it_from_taking_effect(
    server: FaultServer, looks: int
) -> None:
    """Looked at when the request is made, before its headers and before its body are written."""
    async with server.connect(CountdownFence(looks)) as client:
        with pytest.raises(NotLeaderError):
            await client.create(CONFIG_MAPS, config_map("a"))
        # The connection on which half a request stands is not used again.
        assert await client.list_all(CONFIG_MAPS) == []
    assert server.objects == {}


async def test_every_attempt_is_fenced_anew(server: FaultServer) -> None:
    fence = Fence(clock := Clock())
    fence.open_until(1.0)
    async with server.connect(fence, attempts=4) as client:
        server.refuse_writes = 503
        creating = asyncio.create_task(client.create(CONFIG_MAPS, config_map("a")))
        await until(lambda: server.asked)
        clock.now = 2.0
        server.refuse_writes = 0
        with pytest.raises(NotLeaderError):
            await creating
    assert server.objects == {}


async def test_a_rotated_token_is_read_again(server: FaultServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    config = lightkube.KubeConfig.from_one(
        cluster=lightkube.config.models.Cluster(server=f"http://127.0.0.1:{server.port}"),
        user=lightkube.config.models.User(token_file=str(token)),
    ).get()
    assert config is not None
    server.put("a")
    server.tokens = {"old"}
    async with Client(Connection(config, user_agent="t", attempts=1), field_manager="t") as client:
        await client.get(CONFIG_MAPS, "a", "ns")
        server.tokens = {"new"}
        token.write_text("new")
        assert (await client.get(CONFIG_MAPS, "a", "ns")).metadata.name == "a"
        await client.create(CONFIG_MAPS, config_map("b"))
        server.tokens = {"newer"}
        with pytest.raises(ApiError) as refused:
            await client.get(CONFIG_MAPS, "a", "ns")
        assert refused.value.code == 401
        token.unlink()
        with pytest.raises(CredentialsError, match="token"):
            await client.get(CONFIG_MAPS, "a", "ns")


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: {cluster}, user: me}}}}]
clusters: [{{name: c, cluster: {{server: "https://127.0.0.1:9", certificate-authority: {ca}}}}}]
users: [{{name: me, user: {{token: t}}}}]
"""


def test_a_kubeconfig_that_is_missing_or_wrong_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "config"
    with pytest.raises(ConfigurationError, match="name a kubeconfig"):
        load_config(path)
    for text in ("", "][", KUBECONFIG.format(cluster="unknown", ca="ca.crt")):
        path.write_text(text)
        with pytest.raises(ConfigurationError, match="no usable Kubernetes configuration"):
            load_config(path)
    path.write_text(KUBECONFIG.format(cluster="c", ca="missing.crt"))
    with pytest.raises(ConfigurationError, match=r"127\.0\.0\.1:9"):
        Connection(load_config(path), user_agent="t")
    with pytest.raises(ConfigurationError, match="elsewhere"):
        load_config(path, context="elsewhere")
