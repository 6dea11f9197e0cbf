"""One cluster: up, down, status, and what tests do to its parts while it runs."""

import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

from devcluster import binaries, cgroups, etcd, network, node, parts, ports, processes
from devcluster.api import Endpoint
from devcluster.control_plane import COMPONENTS, ControlPlane
from devcluster.errors import ComponentError
from devcluster.layout import Layout, Spec, node_names
from devcluster.pki import Pair
from devcluster.system import require
from gkm.base.errors import UsageError
from gkm.base.files import remove_tree

READY_SECONDS = 60.0  # until a component answers; it takes 2 to 4 on an idle machine
NODE_READY_SECONDS = 120.0

Say = Callable[[str], None]


def _quiet(_: str) -> None:
    return None


@dataclass
class Cluster:
    """A cluster by its folder, whether it runs, lies there dead, or does not exist."""

    layout: Layout
    say: Say = field(default=_quiet, repr=False)

    # --- what it is

    @property
    def spec(self) -> Spec:
        """What the cluster is. Raises `UsageError` if there is none."""
        spec = self.layout.read_spec()
        if spec is None:
            raise UsageError(
                f"there is no cluster {self.layout.name!r} below {self.layout.root}: `make cluster-up`"
            )
        return spec

    @property
    def control_plane(self) -> ControlPlane:
        """What its control plane is started from."""
        return ControlPlane(self.layout, self.spec)

    @property
    def api(self) -> Endpoint:
        """The API server, as the administrator."""
        pki = self.layout.pki
        pair = Pair(pki / "user-kubeconfig.crt", pki / "user-kubeconfig.key")
        return Endpoint(self.spec.address, self.spec.apiserver_port, str(pki / "ca.crt"), pair)

    def _loopback(self, port: int) -> Endpoint:
        pki = self.layout.pki
        return Endpoint(
            "127.0.0.1", port, str(pki / "ca.crt"), Pair(pki / "loopback.crt", pki / "loopback.key")
        )

    # --- up and down

    @classmethod
    def up(
        cls,
        layout: Layout,
        *,
        nodes: int = 0,
        owner: processes.Identity | None = None,
        keep: bool = False,
        say: Say = _quiet,
    ) -> Self:
        """Make cluster `layout.name` run with `nodes` nodes, and return when it is ready for pods.

        A healthy cluster of that shape is left as it is; what a dirty stop left behind is removed first, and
        the cluster starts empty. Raises `UsageError` where one of another shape or version runs,
        `MissingPartError`, `BuildError`, `ComponentError`; whatever it raises, nothing of the new cluster is
        left, unless `keep` says that somebody wants to look at its logs.
        """
        require(nodes, say)
        programs = binaries.ensure(parts.programs(nodes), say)
        self = cls(layout, say)
        with layout.locked():
            if (running := layout.read_spec()) and self._healthy(running):
                if running.nodes != nodes:
                    raise UsageError(
                        f"cluster {layout.name!r} runs with {running.nodes} nodes, not {nodes}: "
                        "`make cluster-down` first"
                    )
                if running.programs != {name: str(path) for name, path in programs.items()}:
                    raise UsageError(
                        f"cluster {layout.name!r} runs other versions than devcluster/go pins: "
                        "`make cluster-down` first"
                    )
                say(f"cluster {layout.name!r} runs already")
                return self
            self._remove()
            try:
                self._create(nodes, programs, owner)
            except BaseException:
                if not keep:
                    self._remove()
                raise
        return self

    def down(self) -> None:
        """End every process of the cluster and remove its mounts, networks and folder; nothing there is fine.

        Raises `LeftoverError` naming what could not be removed.
        """
        with self.layout.locked():
            self._remove()

    def _create(self, nodes: int, programs: Mapping[str, Path], owner: processes.Identity | None) -> None:
        layout = self.layout
        # Passed through, not listed, by other users: the root of a pod's user namespace is one.
        layout.folder.mkdir(parents=True)
        layout.folder.chmod(0o711)
        with network.claimed(layout.name, nodes) as octet:
            apiserver, *loopback = ports.free(5)
            spec = Spec(
                name=layout.name,
                nodes=nodes,
                programs={name: str(path) for name, path in programs.items()},
                etcd_port=loopback[0],
                etcd_peer_port=loopback[1],
                apiserver_port=apiserver,
                controller_manager_port=loopback[2],
                scheduler_port=loopback[3],
                network=octet,
                owner=str(owner) if owner else None,
            )
            layout.write_spec(spec)
            network.create(layout, spec)
        self.control_plane.prepare()
        self.say("starting the control plane")
        self.start("etcd")
        self.start("kube-apiserver", wait=True)
        self.start("kube-controller-manager")
        self.start("kube-scheduler", wait=True)
        self.wait("kube-controller-manager")
        # Admission refuses a pod until its namespace has this.
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self._until("kube-controller-manager", lambda: self.api.answers(account), READY_SECONDS)
        if nodes:
            self.say(f"starting {nodes} node{'s' if nodes > 1 else ''}")
            for name in node_names(nodes):
                node.start(self.control_plane, name)
            for name in node_names(nodes):
                self._until(name, partial(node.ready, self.api, name), NODE_READY_SECONDS)

    def _remove(self) -> None:
        # Killed, not asked: nothing of the cluster is kept, and a graceful kubelet would take its time.
        # A node's first process takes its whole pid namespace and its mounts with it.
        while found := processes.members(self.layout.folder):
            processes.end(found)
        if (spec := self.layout.read_spec()) and spec.nodes:
            network.wait_until_gone(spec)
            cgroups.remove(spec.name)
        remove_tree(self.layout.folder)

    def _healthy(self, spec: Spec) -> bool:
        parts_alive = all(processes.recorded(self._identity(c)) for c in COMPONENTS)
        return (
            parts_alive
            and self.api.answers("/readyz")
            and all(node.ready(self.api, name) for name in node_names(spec.nodes))
        )

    # --- its nodes

    def cut_power(self, name: str) -> None:
        """End node `name` as a machine ends without power: its disk stays. Raises `UsageError`."""
        if name not in node_names(self.spec.nodes):
            raise UsageError(f"cluster {self.layout.name!r} has no node {name!r}")
        node.cut_power(self.control_plane, name)

    def boot(self, name: str) -> None:
        """Start a node after `cut_power`, and return when the API server counts it as ready anew.

        Raises `ComponentError`.
        """
        # The API server counts it as ready for 40 s more: only its next word is from after the start.
        last_word = node.ready_at(self.api, name)
        node.boot(self.control_plane, name)
        self._until(name, lambda: node.ready_at(self.api, name) not in {None, last_word}, NODE_READY_SECONDS)

    def reboot(self, name: str) -> None:
        """`cut_power` and `boot`."""
        self.cut_power(name)
        self.boot(name)

    def kill_daemon(self, name: str, daemon: str) -> None:
        """End a daemon of node `name` with SIGKILL; the node starts it again, and then this returns.

        Raises `UsageError` if it does not run, `ComponentError` if it does not come back.
        """
        killed = node.daemon(self.layout, name, daemon)
        if killed is None:
            raise UsageError(f"{daemon} does not run on {name}")
        processes.end([killed])
        self._until(name, lambda: node.daemon(self.layout, name, daemon) is not None, READY_SECONDS)

    # --- its components

    def _identity(self, component: str) -> Path:
        return self.layout.run / f"{component}.pid"

    def log(self, component: str) -> Path:
        """What `component` prints."""
        return self.layout.logs / f"{component}.log"

    def identity(self, component: str) -> processes.Identity | None:
        """The running process of a control-plane component, or None."""
        return processes.recorded(self._identity(component))

    def start(self, component: str, *, wait: bool = False) -> None:
        """Start a control-plane component that does not run; with `wait`, return when it is ready.

        Raises `UsageError` if it runs, `ComponentError` if it does not become ready.
        """
        if self.identity(component):
            raise UsageError(f"{component} runs already")
        plane = self.control_plane
        identity = processes.spawn(
            plane.arguments(component),
            log=self.log(component),
            environment=plane.environment(),
            member=self.layout.folder,
        )
        processes.record(identity, self._identity(component))
        if wait:
            self.wait(component)

    def kill(self, component: str) -> None:
        """End a component with SIGKILL, as a crash would; returns when it is gone. Not running is fine."""
        if identity := self.identity(component):
            processes.end([identity])

    def signal(self, component: str, number: signal.Signals) -> None:
        """Send a signal (SIGSTOP, SIGCONT, …) to a component. Raises `UsageError` if it does not run."""
        identity = self.identity(component)
        if identity is None or not processes.send(identity, number):
            raise UsageError(f"{component} does not run")

    def restart(self, component: str) -> None:
        """Kill a component, start it again on the same data, and return when it is ready."""
        self.kill(component)
        self.start(component, wait=True)

    def wait(self, component: str, seconds: float = READY_SECONDS) -> None:
        """Return when `component` answers its health endpoint with success. Raises `ComponentError`."""
        spec = self.spec
        probe: dict[str, tuple[Endpoint, str]] = {
            "etcd": (self._loopback(spec.etcd_port), "/health"),
            "kube-apiserver": (self.api, "/readyz"),
            "kube-controller-manager": (self._loopback(spec.controller_manager_port), "/healthz"),
            "kube-scheduler": (self._loopback(spec.scheduler_port), "/readyz"),
        }
        endpoint, path = probe[component]
        self._until(component, lambda: endpoint.answers(path), seconds)

    def compact(self) -> int:
        """Compact etcd to its newest revision, which is returned (see `devcluster.etcd.compact`)."""
        return etcd.compact(self._loopback(self.spec.etcd_port))

    def _until(self, what: str, done: Callable[[], bool], seconds: float) -> None:
        """Wait for `done`, as long as the component or node `what` and all it stands on live."""
        needed = list(dict.fromkeys([*COMPONENTS[:2], what])) if what != "etcd" else ["etcd"]
        deadline = time.monotonic() + seconds
        while not done():
            for name in needed:
                if not self._lives(name):
                    raise ComponentError(f"{name} ended:\n{self._last_words(name)}")
            if time.monotonic() > deadline:
                raise ComponentError(f"{what} is not ready after {seconds:.0f} s:\n{self._last_words(what)}")
            time.sleep(0.05)

    def _lives(self, what: str) -> bool:
        if what in COMPONENTS:
            return self.identity(what) is not None
        return processes.recorded(self.layout.node(what) / "unshare.pid") is not None

    def _last_words(self, what: str) -> str:
        folder = self.layout.node(what)
        logs = [self.log(what)] if what in COMPONENTS else [folder / "init.log", folder / "kubelet.log"]
        lines = [
            line
            for log in logs
            if log.exists()
            for line in log.read_text(errors="replace").splitlines()[-10:]
        ]
        return "\n".join(lines)


def clusters(root: Path) -> list[Layout]:
    """The clusters below `root`, running or not."""
    if not root.is_dir():
        return []
    return [Layout.of(folder.name, root) for folder in sorted(root.iterdir()) if folder.is_dir()]


def reap(root: Path, say: Say = _quiet) -> None:
    """Take down every cluster below `root` whose owner is gone: a test run that was killed."""
    for layout in clusters(root):
        spec = layout.read_spec()
        if spec and spec.owner and not processes.Identity.parse(spec.owner).alive():
            say(f"removing cluster {layout.name!r}: the process it was made for is gone")
            Cluster(layout, say).down()
