"""Probes and scrapes are answered; what is not HTTP does no harm."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from gkm.kube.health import HealthServer
from gkm.kube.metrics import Metrics


async def ask(server: HealthServer, request: bytes) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request)
    answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split(" ")[1]), body


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


async def test_readiness_lists_what_is_wrong() -> None:
    problems = {"stores": "configmaps: not complete yet", "other": ""}
    checks = {name: lambda name=name: problems[name] for name in problems}
    async with HealthServer(host="127.0.0.1", checks=checks) as server:
        assert await ask(server, get("/healthz")) == (200, "ok\n")
        assert await ask(server, get("/readyz")) == (503, "stores: configmaps: not complete yet\nother: ok\n")
        problems["stores"] = ""
        assert await ask(server, get("/readyz?verbose")) == (200, "stores: ok\nother: ok\n")


async def test_metrics_have_controller_runtimes_names() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    metrics.request("GET", "server:6443", "200")
    async with HealthServer(host="127.0.0.1", registry=registry) as server:
        code, body = await ask(server, get("/metrics"))
    assert code == 200
    assert 'rest_client_requests_total{code="200",host="server:6443",method="GET"} 1.0' in body
    for family in (
        "controller_runtime_reconcile_total",
        "controller_runtime_reconcile_errors_total",
        "controller_runtime_terminal_reconcile_errors_total",
        "controller_runtime_reconcile_time_seconds",
        "controller_runtime_max_concurrent_reconciles",
        "controller_runtime_active_workers",
        "workqueue_depth",
        "workqueue_adds_total",
        "workqueue_queue_duration_seconds",
        "workqueue_work_duration_seconds",
        "workqueue_unfinished_work_seconds",
        "workqueue_longest_running_processor_seconds",
        "workqueue_retries_total",
        "leader_election_master_status",
    ):
        assert f"# HELP {family} " in body


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (get("/other"), 404),
        (get("/metrics"), 404),
        (b"POST /healthz HTTP/1.1\r\n\r\n", 405),
        (b"\x16\x03\x01 nonsense\r\n\r\n", 400),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", 400),
    ],
    ids=["unknown", "no-registry", "post", "not-http", "too-long"],
)
async def test_anything_else_is_refused(request_: bytes, code: int) -> None:
    async with HealthServer(host="127.0.0.1") as server:
        try:
            assert (await ask(server, request_))[0] == code
        except ConnectionResetError:
            # The server closed with our bytes unread: just as well, and only possible for the long one.
            assert len(request_) > 60_000
        assert await ask(server, b"HEAD /healthz HTTP/1.1\r\n\r\n") == (200, "")
