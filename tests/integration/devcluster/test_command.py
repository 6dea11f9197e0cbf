"""``python -m devcluster`` as people and make use it."""

import os
import subprocess
import sys

from support import parts
from support.devcluster import Cluster


def devcluster(cluster: Cluster, *words: str, name: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GKM_DEVCLUSTER_STATE": str(cluster.layout.root)}
    command = [sys.executable, "-m", "devcluster", "--name", name or cluster.layout.name, *words]
    return subprocess.run(
        command,
        env=environment,
        cwd=parts.REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_status_names_every_component(control_plane: Cluster) -> None:
    got = devcluster(control_plane, "status")
    assert got.returncode == 0, got.stderr
    for component in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        assert f"{component} " in got.stdout
    assert f"{control_plane.server} " in got.stdout
    assert "stopped" not in got.stdout


def test_status_says_no_while_a_component_is_dead(control_plane: Cluster) -> None:
    control_plane.kill("kube-scheduler")
    got = devcluster(control_plane, "status")
    control_plane.start("kube-scheduler", wait=True)
    assert got.returncode == 1
    (stopped,) = [line for line in got.stdout.splitlines() if "stopped" in line]
    assert stopped.startswith("kube-scheduler")


def test_env_puts_kubectl_and_its_configuration_in_reach(control_plane: Cluster) -> None:
    environment = devcluster(control_plane, "env").stdout
    script = f"{environment}\ncommand -v kubectl; kubectl config current-context; kubectl auth whoami"
    got = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert got.returncode == 0, got.stderr
    path, context, *who = got.stdout.splitlines()
    assert path == str(control_plane.layout.bin / "kubectl")
    assert context == f"gkm-devcluster-{control_plane.layout.name}"
    assert any("kubernetes-admin" in line for line in who)


def test_list_shows_the_cluster_of_this_run(control_plane: Cluster) -> None:
    (line,) = [
        line
        for line in devcluster(control_plane, "list").stdout.splitlines()
        if line.startswith(control_plane.layout.name)
    ]
    assert line.split()[1:] == ["0", "nodes", "running"]


def test_what_is_not_there_is_a_usage_error_that_says_what_to_do(control_plane: Cluster) -> None:
    for words in (["status"], ["env"], ["exec", "node-1", "true"], ["load", "image.tar"]):
        got = devcluster(control_plane, *words, name="absent")
        assert got.returncode == 2, words
        assert "make cluster-up" in got.stderr
    assert not (control_plane.layout.root / "absent").exists()


def test_down_of_what_is_not_there_is_done(control_plane: Cluster) -> None:
    assert devcluster(control_plane, "down", name="absent").returncode == 0
    assert not (control_plane.layout.root / "absent.lock").exists()


def test_doctor_finds_what_the_control_plane_needs(control_plane: Cluster) -> None:
    got = devcluster(control_plane, "doctor", "--nodes", "0")
    assert got.returncode == 0, got.stdout
    assert "Go: ok" in got.stdout.splitlines()
