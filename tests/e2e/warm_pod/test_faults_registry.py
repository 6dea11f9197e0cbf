"""A registry that damages layers, or takes for ever: pods start without the cache, or wait and start with it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.faulty_registry import FaultyRegistry, faulty_registry
from support.installed import apply, eventually
from support.unavailable import (
    fails_on_a_node,
    on_node,
    starts_cold,
    starts_warm,
    still_waits,
    two_caches,
    two_pods,
)
from support.warm_pods import claim, compiler, events, inline, push, report, sleeper

pytestmark = [pytest.mark.root, pytest.mark.triton, pytest.mark.timeout(1800)]

_NODE = "node-1"


@pytest.fixture(scope="module")
def registry(gkm: Any) -> Iterator[FaultyRegistry]:
    with faulty_registry(gkm.cluster) as made:
        yield made


def test_a_damaged_layer(gkm: Any, registry: FaultyRegistry, empty_namespace: str, tmp_path: Path) -> None:
    cluster, namespace = gkm.cluster, empty_namespace
    arguments = ("--targets", "gfx942", "--kernels", "2")
    two_caches(cluster, namespace, push(cluster, tmp_path / "cache", "kernels/damaged:1", *arguments))
    registry.set(damaged="damaged")
    two_pods(cluster, namespace)
    apply(cluster, compiler(namespace, "compiler", inline("patient", namespace), "/elsewhere", *arguments))
    assert "sha256:" in starts_cold(cluster, namespace, "DigestMismatch")
    fails_on_a_node(cluster, namespace, "DigestMismatch")
    still_waits(cluster, namespace)

    registry.set()
    starts_warm(cluster, namespace)
    told = report(cluster, namespace, "compiler")
    assert (told["hits"], told["compiled"]) == (2, 0)
    eventually(lambda: "Staged" in events(cluster, namespace, "patient"), "the cache says that it is mended")


def test_a_registry_that_takes_for_ever(
    gkm: Any, registry: FaultyRegistry, empty_namespace: str, tmp_path: Path
) -> None:
    cluster, namespace = gkm.cluster, empty_namespace
    arguments = ("--targets", "gfx942", "--kernels", "3")
    image = push(cluster, tmp_path / "cache", "kernels/slow:1", *arguments)
    two_caches(cluster, namespace, image)
    registry.set(slow="slow")
    two_pods(cluster, namespace, _NODE)
    # Kubelet publishes the pods of one PersistentVolume one after the other: they share one wait.
    shared = [f"claim-{number}" for number in range(8)]
    apply(cluster, *(on_node(sleeper(namespace, name, claim("kernels")), _NODE) for name in shared))
    host = image.partition("/")[0]
    for pod in ("cold", *shared):
        assert f"{host} is still sending it" in starts_cold(cluster, namespace, "Staging", pod)
    told = eventually(lambda: events(cluster, namespace, "waits").get("WaitingForCache"), "it says so", 60)
    assert told is not None
    assert host in told
    still_waits(cluster, namespace)

    registry.set()
    starts_warm(cluster, namespace)
