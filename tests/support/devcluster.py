"""A real Kubernetes for tests: etcd, API server, controller manager, scheduler, and nodes where asked for.

Fixtures (registered in tests/conftest.py, so every test may name them)::

    def test_something(control_plane: Cluster) -> None:           # one per test run, no nodes
        control_plane.kubectl("create", "namespace", "mine")
        config = control_plane.kubeconfig                          # Path, administrator
        weak = control_plane.user("alice", ["dev"])                # a kubeconfig with no rights but RBAC's
        mark = control_plane.audit_mark()
        ...
        for event in control_plane.audit(mark): ...              # event.user.username, .verb, .object_ref
        control_plane.kill("kube-apiserver")                       # SIGKILL, returns when it is gone
        control_plane.start("kube-apiserver", wait=True)
        control_plane.restart("kube-apiserver")
        control_plane.signal("kube-apiserver", signal.SIGSTOP)     # and SIGCONT
        control_plane.compact()                                    # etcd; restart the API server too for 410

    def test_pods(two_nodes: Cluster) -> None:                     # one per test run, two nodes, needs root
        two_nodes.kubectl("run", "a", "--image", BUSYBOX, "--", "sleep", "1000")
        two_nodes.kill_daemon("node-1", "kubelet")                 # SIGKILL; returns when the node has another
        two_nodes.reboot("node-1")                                 # mounts and processes gone, the disk stays

The clusters are shared by all tests of a run: use a namespace of your own (`namespace` makes one and deletes
it), and leave the API server running. Every method returns when what it did has taken effect.
"""

import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from devcluster import audit, binaries, cluster, images, processes, system
from devcluster.errors import BuildError, MissingPartError
from devcluster.layout import Layout, state_root
from devcluster.parts import programs
from support import parts

BUSYBOX = images.BUSYBOX

# Clusters of test runs lie apart from a developer's, and die with the run that made them.
_ROOT = state_root().with_name(f"{state_root().name}-tests")
# Read now: a test's environment is cleaned of GKM_*.
_CACHE = os.environ.get("GKM_DEVCLUSTER_CACHE")


@dataclass
class Cluster(cluster.Cluster):
    """A running cluster, with what tests do to one."""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.layout.kubeconfig

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self.spec.server

    @property
    def audit_log(self) -> Path:
        """The audit log, JSON lines."""
        return self.layout.audit_log

    def kubectl(self, *words: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl as the administrator; its standard output. A failure fails the test."""
        got = self.run_kubectl(*words, stdin=stdin)
        if check and got.returncode != 0:
            pytest.fail(f"kubectl {' '.join(words)}: {got.stderr.strip()}")
        return got.stdout

    def run_kubectl(
        self, *words: str, stdin: str | None = None, kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl (as the administrator unless `kubeconfig` says who) and return how it ended."""
        command = [
            str(self.layout.bin / "kubectl"),
            "--kubeconfig",
            str(kubeconfig or self.kubeconfig),
            *words,
        ]
        # HOME: kubectl's discovery cache belongs to this cluster.
        environment = {"PATH": os.defpath, "HOME": str(self.layout.folder)}
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, env=environment, timeout=120, check=False
        )

    def create_namespace(self, name: str) -> None:
        """Make the namespace and wait for its service account: until then the API server refuses every Pod."""
        self.kubectl("create", "namespace", name)
        self.kubectl("wait", "-n", name, "--for=create", "--timeout=60s", "serviceaccount/default")

    def user(self, name: str, groups: list[str] | None = None) -> Path:
        """A kubeconfig for a new user, who may do what RBAC gives to the name and the groups."""
        path = self.layout.folder / f"{uuid.uuid4().hex}.kubeconfig"
        return self.control_plane.user(name, groups or [], path)

    def audit_mark(self) -> int:
        """Where the audit log ends now; for `audit`."""
        return self.audit_log.stat().st_size

    def audit(self, mark: int = 0) -> list[audit.Event]:
        """What the API server answered since `mark`. A request is logged before its answer is sent."""
        return audit.read(self.audit_log, offset=mark)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build before the first test starts: a test's time limit is not meant for compiling Kubernetes."""
    wanted = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if session.config.option.collectonly or not wanted & {"control_plane", "two_nodes"}:
        return
    nodes = 2 if "two_nodes" in wanted else 0
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    say = reporter.write_line if reporter else lambda _: None  # a worker among several has none
    try:
        system.require(nodes, say)
        binaries.ensure(programs(nodes), say)
    except MissingPartError:
        return  # the fixtures say it to each test
    except BuildError as error:
        pytest.exit(str(error), returncode=pytest.ExitCode.INTERNAL_ERROR)


@contextmanager
def running(nodes: int) -> Iterator[Cluster]:
    """A new cluster for the block; the next test run removes it if this one is killed."""
    if nodes:
        parts.need_root()
    if _CACHE:
        os.environ["GKM_DEVCLUSTER_CACHE"] = _CACHE
    cluster.reap(_ROOT)
    layout = Layout.of(f"t{uuid.uuid4().hex[:8]}", _ROOT)
    try:
        made = Cluster.up(layout, nodes=nodes, owner=processes.Identity.of(os.getpid()))
    except MissingPartError as error:
        parts.missing("what a cluster needs", str(error))
        raise
    try:
        yield made
    finally:
        made.down()


@pytest.fixture(scope="session")
def control_plane() -> Iterator[Cluster]:
    """The control plane of this test run."""
    with running(0) as made:
        yield made


@pytest.fixture(scope="session")
def two_nodes() -> Iterator[Cluster]:
    """The cluster with two nodes of this test run."""
    with running(2) as made:
        yield made


@pytest.fixture
def namespace(control_plane: Cluster) -> Iterator[str]:
    """A namespace of the control plane for one test."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    control_plane.create_namespace(name)
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")
