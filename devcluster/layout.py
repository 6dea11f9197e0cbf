"""Where a cluster keeps what it writes: one folder, nothing elsewhere.

``$GKM_DEVCLUSTER_STATE`` (default ``/var/lib/gkm-devcluster`` for root, else
``${XDG_STATE_HOME:-~/.local/state}/gkm/devcluster``) holds one folder per cluster and a lock file beside it.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gkm.base.errors import UsageError
from gkm.base.files import write_atomic

# A network interface name has 15 characters (IFNAMSIZ), `gkm-` takes four of them.
_NAME = re.compile(r"[a-z][a-z0-9-]{0,9}[a-z0-9]|[a-z]")


def state_root() -> Path:
    """The folder of all clusters of this user."""
    if folder := os.environ.get("GKM_DEVCLUSTER_STATE"):
        return Path(folder).absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/gkm-devcluster")
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "gkm" / "devcluster"


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What one cluster is: decided once by ``up``, read by everything after it (``cluster.json``).

    `network` is the second octet of the cluster's 10.N.0.0/16, None without nodes. `owner` is the process
    identity (see `devcluster.processes.Identity`) without which nobody needs the cluster, or None.
    """

    name: str
    nodes: int
    programs: dict[str, str]
    etcd_port: int
    etcd_peer_port: int
    apiserver_port: int
    controller_manager_port: int
    scheduler_port: int
    network: int | None = None
    owner: str | None = None

    @property
    def address(self) -> str:
        """The host's address on which the API server listens: loopback, or the cluster's own network."""
        return "127.0.0.1" if self.network is None else f"10.{self.network}.0.1"

    @property
    def server(self) -> str:
        """The API server's URL."""
        return f"https://{self.address}:{self.apiserver_port}"

    @property
    def services(self) -> str:
        """The CIDR of cluster IPs."""
        return "10.96.0.0/16" if self.network is None else f"10.{self.network}.64.0/20"

    @property
    def service_ip(self) -> str:
        """The cluster IP of ``kubernetes.default``: the first of `services` by upstream's rule."""
        return self.services.rsplit(".", 1)[0] + ".1"

    @property
    def dns_ip(self) -> str:
        """The cluster IP that kubelets give pods as name server (nothing answers there by default)."""
        return self.services.rsplit(".", 1)[0] + ".10"


@dataclass(frozen=True)
class Layout:
    """The paths of one cluster."""

    root: Path
    name: str

    @classmethod
    def of(cls, name: str, root: Path | None = None) -> "Layout":
        """The layout of cluster `name` below `root` (default: `state_root()`).

        Raises `UsageError` for a name that cannot be part of an interface's name.
        """
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"a cluster's name has at most 11 lower-case letters, digits and dashes, not {name!r}"
            )
        return cls((root or state_root()).absolute(), name)

    @property
    def folder(self) -> Path:
        """Everything this cluster writes lies below."""
        return self.root / self.name

    @property
    def spec_file(self) -> Path:
        """What the cluster is."""
        return self.folder / "cluster.json"

    @property
    def pki(self) -> Path:
        """Keys and certificates."""
        return self.folder / "pki"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    @property
    def bin(self) -> Path:
        """A folder for PATH: kubectl of the cluster's version and nothing else."""
        return self.folder / "bin"

    @property
    def audit_log(self) -> Path:
        """The API server's audit log, one JSON document per line."""
        return self.folder / "audit" / "audit.log"

    @property
    def registries(self) -> Path:
        """How nodes reach registries: ``HOST:PORT/hosts.toml``, as containerd has it; empty at first."""
        return self.folder / "registries"

    @property
    def logs(self) -> Path:
        """What the control plane's processes print."""
        return self.folder / "logs"

    @property
    def run(self) -> Path:
        """The identities of running processes."""
        return self.folder / "run"

    def node(self, node: str) -> Path:
        """The folder of one node."""
        return self.folder / "nodes" / node

    def write_spec(self, spec: Spec) -> None:
        """Record what the cluster is."""
        write_atomic(self.spec_file, msgspec.json.format(msgspec.json.encode(spec), indent=2) + b"\n")

    def read_spec(self) -> Spec | None:
        """What the cluster is; None if it does not exist, or was stopped before it was decided."""
        with suppress(FileNotFoundError, msgspec.DecodeError):
            return msgspec.json.decode(self.spec_file.read_bytes(), type=Spec)
        return None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process at a time changes the cluster; waits for the other.

        The lock file is removed with the cluster, so whoever waited looks whether it still locks the name.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        path = self.root / f"{self.name}.lock"
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if path.stat().st_ino == os.fstat(fd).st_ino:
                    break
            os.close(fd)
        try:
            yield
        finally:
            if not self.folder.exists():
                path.unlink()
                with suppress(OSError):  # other clusters live here
                    self.root.rmdir()
            os.close(fd)


def node_names(count: int) -> list[str]:
    """The names of a cluster's nodes."""
    return [f"node-{i}" for i in range(1, count + 1)]
