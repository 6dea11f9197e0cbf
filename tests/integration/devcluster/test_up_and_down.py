"""A cluster comes and goes: twice is once, a dirty stop is survived, and nothing stays behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from devcluster import cluster, commands, processes
from devcluster.cluster import Cluster
from devcluster.control_plane import COMPONENTS
from devcluster.errors import ComponentError
from devcluster.layout import Layout, Spec
from gkm.base.errors import UsageError
from support import parts
from support.devcluster import Cluster as Shared


@pytest.fixture
def layout(tmp_path: Path, control_plane: Shared) -> Iterator[Layout]:
    """A cluster of the test's own; `control_plane` has shown that this machine can have one."""
    made = Layout.of("mine", tmp_path / "state")
    yield made
    Cluster(made).down()


def member(layout: Layout) -> processes.Identity:
    """A process of the cluster that nobody wrote down."""
    layout.folder.mkdir(parents=True, exist_ok=True)
    sleep = [commands.program("sleep"), "1000"]
    return processes.spawn(sleep, log=layout.folder / "log", environment={}, member=layout.folder)


def assert_nothing_is_left(layout: Layout) -> None:
    assert processes.members(layout.folder) == []
    assert not layout.root.exists()
    assert str(layout.folder) not in Path("/proc/self/mountinfo").read_text()


def test_up_twice_is_once_and_down_leaves_nothing(layout: Layout) -> None:
    made = Cluster.up(layout)
    assert made.api.answers("/api/v1/namespaces/default/serviceaccounts/default")
    running = [made.identity(component) for component in COMPONENTS]
    assert all(running)
    assert {i.pid for i in processes.members(layout.folder)} == {i.pid for i in running if i}

    Cluster.up(layout)
    assert [made.identity(component) for component in COMPONENTS] == running

    if os.geteuid() == 0:
        with pytest.raises(UsageError, match="runs with 0 nodes"):
            Cluster.up(layout, nodes=1)
        assert made.api.answers("/readyz")

    spec = made.spec
    layout.write_spec(msgspec.structs.replace(spec, programs={**spec.programs, "etcd": "/older/etcd"}))
    with pytest.raises(UsageError, match="other versions"):
        Cluster.up(layout)
    assert [made.identity(component) for component in COMPONENTS] == running

    made.down()
    assert not any(identity.alive() for identity in running if identity)
    assert_nothing_is_left(layout)
    made.down()  # nothing there is fine
    assert_nothing_is_left(layout)


def test_dirty_stops_are_survived(layout: Layout) -> None:
    """`up` killed half-way, then every process of a cluster killed: the next `up` starts afresh each time."""
    environment = {**os.environ, "GKM_DEVCLUSTER_STATE": str(layout.root)}
    words = [sys.executable, "-m", "devcluster", "--name", layout.name, "up", "--nodes", "0"]
    with subprocess.Popen(
        words, env=environment, cwd=parts.REPOSITORY, stderr=subprocess.PIPE, text=True
    ) as up:
        assert up.stderr is not None
        assert any("starting the control plane" in line for line in up.stderr)
        while not processes.members(layout.folder):
            assert up.poll() is None
        up.kill()
    made = Cluster.up(layout)
    assert len(processes.members(layout.folder)) == len(COMPONENTS)

    made.api.json("POST", "/api/v1/namespaces", {"metadata": {"name": "lost"}})
    for identity in processes.members(layout.folder):
        processes.send(identity, signal.SIGKILL)
    again = Cluster.up(layout)
    assert again.api.answers("/readyz")
    assert not again.api.answers("/api/v1/namespaces/lost")


def test_a_component_that_cannot_start_is_named_and_nothing_stays(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.ports, "free", lambda count: [1] * count)  # nobody can listen twice on a port
    with pytest.raises(ComponentError, match=r"(kube-apiserver|etcd) ended:(.|\n)*address already in use"):
        Cluster.up(layout)
    assert_nothing_is_left(layout)


def test_down_finds_processes_that_nobody_wrote_down(layout: Layout) -> None:
    unknown = member(layout)
    Cluster(layout).down()
    assert not unknown.alive()
    assert_nothing_is_left(layout)


def test_down_spares_a_process_that_has_got_the_pid_of_ours(layout: Layout) -> None:
    with subprocess.Popen(["sleep", "1000"]) as stranger:
        identity = processes.Identity.of(stranger.pid)
        assert identity is not None
        layout.run.mkdir(parents=True)
        stale = processes.Identity(identity.pid, identity.start - 1, identity.boot)
        processes.record(stale, layout.run / "etcd.pid")
        Cluster(layout).kill("etcd")
        Cluster(layout).down()
        assert stranger.poll() is None
        stranger.kill()


def test_clusters_of_a_test_run_that_was_killed_are_reaped(layout: Layout) -> None:
    ports = dict.fromkeys(("etcd_port", "etcd_peer_port", "apiserver_port", "scheduler_port"), 1)
    with subprocess.Popen(["sleep", "1000"]) as owner:
        running = member(layout)
        who = str(processes.Identity.of(owner.pid))
        spec = Spec(name="mine", nodes=0, programs={}, owner=who, controller_manager_port=1, **ports)
        layout.write_spec(spec)
        cluster.reap(layout.root)
        assert running.alive()
        owner.kill()
    cluster.reap(layout.root)
    assert not running.alive()
    assert_nothing_is_left(layout)
