"""Sockets that crash, are deleted or belong to another, and calls that end badly; real gRPC on real sockets."""

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import pytest

from gkm.kubelet import server as server_module
from gkm.kubelet.errors import CallError, SocketError, SocketInUseError
from gkm.kubelet.protos import pluginregistration_pb2 as wire
from gkm.kubelet.registration import Plugin, Registration, registration_socket
from gkm.kubelet.server import SocketServer, remove_stale_socket
from gkm.kubelet.service import Method, Service
from support.csi import dialled

GET_INFO = "pluginregistration.Registration/GetInfo"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short: a socket's path has at most 107 bytes."""
    with TemporaryDirectory(prefix="gkm-") as path:
        yield Path(path)


def registration() -> Registration:
    return Registration(Plugin("CSIPlugin", "csi.example.com", Path("/x/csi.sock"), ["1.0.0"]))


def answering(handler: Any) -> Service:
    return Service("test.Service", {"Call": Method(wire.InfoRequest, handler)})


async def ask(path: Path, method: str = GET_INFO) -> wire.PluginInfo:
    async with dialled(path) as peer:
        answer = await peer.call(method, wire.InfoRequest(), wire.PluginInfo)
    assert isinstance(answer, wire.PluginInfo)
    return answer


async def test_registration_answers_and_hears_what_kubelet_says(folder: Path) -> None:
    heard: list[bool] = []
    plugin = Plugin("CSIPlugin", "csi.example.com", Path("/x/csi.sock"), ["1.0.0"])
    serving = Registration(plugin, heard.append)
    server = SocketServer(registration_socket(folder, plugin.name), [serving.service])
    await server.start()
    try:
        assert server.path == folder / "plugins_registry" / "csi.example.com-reg.sock"
        assert server.path.stat().st_mode & 0o777 == 0o600
        info = await ask(server.path)
        assert (info.name, info.endpoint) == ("csi.example.com", "/x/csi.sock")
        async with dialled(server.path) as kubelet:
            method = "pluginregistration.Registration/NotifyRegistrationStatus"
            for status in (False, True):
                said = wire.RegistrationStatus(plugin_registered=status, error="" if status else "no")
                await kubelet.call(method, said, wire.RegistrationStatusResponse)
        assert heard == [False, True]
        assert serving.registered
    finally:
        await server.stop()
    assert list(server.path.parent.iterdir()) == []


async def test_a_dead_processes_socket_is_replaced_and_a_living_ones_is_not(folder: Path) -> None:
    path = folder / "s.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    first = SocketServer(path, [registration().service])
    await first.start()
    try:
        with pytest.raises(SocketInUseError, match="stop it first"):
            await SocketServer(path, [registration().service]).start()
        assert (await ask(path)).name == "csi.example.com"
    finally:
        await first.stop()


async def test_of_two_that_begin_at_the_same_moment_one_serves_and_the_other_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that is about to end and the one that follows it, seen on a node: each finds the place free."""

    def look_and_hesitate(path: Path) -> None:
        remove_stale_socket(path)
        time.sleep(0.2)

    monkeypatch.setattr(server_module, "remove_stale_socket", look_and_hesitate)
    both = [SocketServer(folder / "s.sock", [registration().service]) for _ in range(2)]
    told = await asyncio.gather(*(each.start() for each in both), return_exceptions=True)
    try:
        assert {type(each) for each in told} == {type(None), SocketInUseError}
        assert [each.is_in_place() for each in both] == [error is None for error in told]
        assert (await ask(folder / "s.sock")).name == "csi.example.com"
    finally:
        for each in both:
            await each.stop()


async def test_who_stops_leaves_the_place_to_another_while_calls_end(folder: Path) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def wait(_: wire.InfoRequest) -> wire.PluginInfo:
        started.set()
        await go_on.wait()
        return wire.PluginInfo(name="done")

    path = folder / "s.sock"
    first = SocketServer(path, [answering(wait)])
    second = SocketServer(path, [registration().service])
    await first.start()
    asking = asyncio.ensure_future(ask(path, "test.Service/Call"))
    await started.wait()
    stopping = asyncio.ensure_future(first.stop(grace=60))
    while path.exists():
        await asyncio.sleep(0.01)
    await second.start()
    try:
        go_on.set()
        assert (await asking).name == "done"
        await stopping
        assert second.is_in_place()
        assert (await ask(path)).name == "csi.example.com"
    finally:
        await second.stop()


async def test_what_is_no_socket_or_cannot_be_one_is_refused_and_left_alone(folder: Path) -> None:
    (folder / "file").write_text("x")
    with pytest.raises(SocketError, match="not a socket"):
        await SocketServer(folder / "file", []).start()
    assert (folder / "file").read_text() == "x"
    with pytest.raises(SocketError, match="106 bytes"):
        await SocketServer(folder / ("x" * 100), []).start()


@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_a_socket_that_is_gone_is_served_again(folder: Path, how: str) -> None:
    server = SocketServer(folder / "s.sock", [registration().service])
    await server.start()
    keeping = asyncio.ensure_future(server.keep(every=0.01))
    try:
        server.path.unlink()
        if how == "replaced":
            with socket.socket(socket.AF_UNIX) as other:
                other.bind(str(server.path))
        while not server.is_in_place():
            await asyncio.sleep(0.01)
        assert (await ask(server.path)).name == "csi.example.com"
    finally:
        keeping.cancel()
        await server.stop()


async def test_stopping_leaves_anothers_socket_alone(folder: Path) -> None:
    server = SocketServer(folder / "s.sock", [registration().service])
    await server.start()
    server.path.rename(folder / "moved")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(server.path))
        inode = server.path.stat().st_ino
        await server.stop()
        assert server.path.stat().st_ino == inode


async def test_errors_become_codes_and_the_unexpected_is_not_told(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(_: wire.InfoRequest) -> wire.PluginInfo:
        raise CallError(grpc.StatusCode.ABORTED, "come again")

    async def fail(_: wire.InfoRequest) -> wire.PluginInfo:
        raise ValueError("a secret")

    methods = {"Refuse": Method(wire.InfoRequest, refuse), "Fail": Method(wire.InfoRequest, fail)}
    server = SocketServer(folder / "s.sock", [Service("test.Service", methods)])
    await server.start()
    try:
        answers = {}
        for name in ("Refuse", "Fail", "Missing"):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await ask(server.path, f"test.Service/{name}")
            answers[name] = (refused.value.code(), refused.value.details())
        assert answers["Refuse"] == (grpc.StatusCode.ABORTED, "come again")
        assert answers["Fail"] == (grpc.StatusCode.INTERNAL, "ValueError; the agent's log says more")
        assert answers["Missing"][0] is grpc.StatusCode.UNIMPLEMENTED
        assert "a secret" in caplog.text
    finally:
        await server.stop()


async def test_a_caller_that_hangs_up_cancels_its_call_and_no_other(folder: Path) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def wait(_: wire.InfoRequest) -> wire.PluginInfo:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError("unreachable")

    server = SocketServer(folder / "s.sock", [answering(wait), registration().service])
    await server.start()
    try:
        asking = asyncio.ensure_future(ask(server.path, "test.Service/Call"))
        await started.wait()
        assert (await ask(server.path)).name == "csi.example.com"
        asking.cancel()
        await cancelled.wait()
        assert (await ask(server.path)).name == "csi.example.com"
    finally:
        await server.stop()


async def test_calls_over_the_limit_are_refused_at_once(folder: Path) -> None:
    started, go_on = 0, asyncio.Event()

    async def wait(_: wire.InfoRequest) -> wire.PluginInfo:
        nonlocal started
        started += 1
        await go_on.wait()
        return wire.PluginInfo(name="done")

    server = SocketServer(folder / "s.sock", [answering(wait)], concurrent=2)
    await server.start()
    try:
        held = [asyncio.ensure_future(ask(server.path, "test.Service/Call")) for _ in range(2)]
        while started < 2:
            await asyncio.sleep(0.01)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await ask(server.path, "test.Service/Call")
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        go_on.set()
        assert [info.name for info in await asyncio.gather(*held)] == ["done", "done"]
    finally:
        await server.stop()


async def test_an_old_kubelets_authority_is_accepted(folder: Path) -> None:
    """Kubelets before 1.26 sent the socket's path as ``:authority``, which some servers refuse."""
    server = SocketServer(folder / "s.sock", [registration().service])
    await server.start()
    try:
        options = [("grpc.default_authority", os.fspath(server.path))]
        async with grpc.aio.insecure_channel(f"unix:{server.path}", options=options) as channel:
            call = channel.unary_unary(
                f"/{GET_INFO}", wire.InfoRequest.SerializeToString, wire.PluginInfo.FromString
            )
            assert (await call(wire.InfoRequest())).name == "csi.example.com"
    finally:
        await server.stop()
