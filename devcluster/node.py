"""A node: kubelet, containerd and kube-proxy in namespaces of their own, with pods that really run."""

import os
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from devcluster import cgroups, network, node_files, processes
from devcluster.api import Endpoint
from devcluster.binaries import cache_folder
from devcluster.commands import program, run
from devcluster.control_plane import ControlPlane
from devcluster.layout import Layout
from devcluster.node_files import CONTAINERD
from devcluster.node_init import Daemon, Plan
from gkm.base.errors import GKMError, UsageError

_REPOSITORY = Path(__file__).resolve().parents[1]


def start(plane: ControlPlane, node: str) -> None:
    """Make `node` of a cluster whose API server answers, and start it; `ready` says when it takes pods."""
    folder = plane.layout.node(node)
    folder.mkdir(parents=True)
    node_files.write(plane, node, folder)
    boot(plane, node)


def boot(plane: ControlPlane, node: str) -> None:
    """Start a node that was made before, on the disk that it has."""
    folder = plane.layout.node(node)
    cgroups.create(plane.spec.name, node)
    plan = _plan(plane, node, folder)
    (folder / "init.json").write_bytes(msgspec.json.encode(plan))
    unshare = [
        "--mount",
        "--pid",
        "--net",
        "--ipc",
        "--uts",
        "--fork",
        "--kill-child",
        "--propagation",
        "private",
    ]
    identity = processes.spawn(
        [
            program("unshare"),
            *unshare,
            sys.executable,
            "-m",
            "devcluster.node_init",
            str(folder / "init.json"),
        ],
        log=folder / "init.log",
        environment={**plan.environment, "PYTHONPATH": str(_REPOSITORY)},
        member=plane.layout.folder,
    )
    processes.record(identity, folder / "unshare.pid")
    network.connect(plane.layout, plane.spec, node, identity)


def cut_power(plane: ControlPlane, node: str) -> None:
    """End everything on `node` at once, and return when its processes, mounts and network are gone.

    Its disk stays. Nothing is asked to end, as nothing is when a machine loses power.
    """
    folder = plane.layout.node(node)
    found = [processes.recorded(folder / f"{name}.pid") for name in ("init", "unshare")]
    # Its first process is gone only when all others of its pid namespace are.
    processes.end([identity for identity in found if identity])
    network.wait_until_disconnected(plane.layout, node)
    cgroups.remove(plane.spec.name, node)


def daemon(layout: Layout, node: str, name: str) -> processes.Identity | None:
    """The process of the daemon `name` (``kubelet``, ``containerd``, ``kube-proxy``) on `node`; None while
    there is none.
    """
    init = processes.recorded(layout.node(node) / "init.pid")
    spec = layout.read_spec()
    if init is None or spec is None:
        return None
    for identity in processes.members(layout.folder):
        with suppress(OSError):  # ended meanwhile
            process = Path(f"/proc/{identity.pid}")
            argv = (process / "cmdline").read_bytes().split(b"\0")
            same = (process / "ns/pid").readlink() == Path(f"/proc/{init.pid}/ns/pid").readlink()
            if same and argv[0].decode() == spec.programs[name]:
                return identity
    return None


def ready(api: Endpoint, node: str) -> bool:
    """Whether the API server counts `node` as ready."""
    return ready_at(api, node) is not None


def ready_at(api: Endpoint, node: str) -> str | None:
    """When kubelet last said that `node` is ready; None where the API server does not count it as that."""
    try:
        conditions = api.json("GET", f"/api/v1/nodes/{node}")["status"].get("conditions", [])
    except GKMError:
        return None
    said = (c["lastHeartbeatTime"] for c in conditions if c["type"] == "Ready" and c["status"] == "True")
    return next(said, None)


def inside(layout: Layout, node: str) -> list[str]:
    """The words to put before a command that shall run in `node`'s namespaces. Raises `UsageError`."""
    identity = processes.recorded(layout.node(node) / "init.pid")
    if identity is None:
        raise UsageError(
            f"cluster {layout.name!r} has no running node {node!r}; `make cluster-up` starts one with nodes"
        )
    return [program("nsenter"), "--target", str(identity.pid), "--mount", "--pid", "--net", "--ipc", "--uts"]


def load(layout: Layout, node: str, archive: Path) -> None:
    """Import an image archive (OCI layout or docker-archive tar) into `node`'s containerd."""
    spec = layout.read_spec()
    if spec is None:
        raise UsageError(f"there is no cluster {layout.name!r}")
    shared = layout.node(node) / "lib" / "archive.tar"  # the archive may lie where the node does not see it
    shared.unlink(missing_ok=True)
    try:
        run(["cp", "--reflink=auto", archive, shared])
        run(
            [*inside(layout, node), *_import(spec.programs["ctr"], Path("/var/lib/archive.tar"))], timeout=600
        )
    finally:
        shared.unlink(missing_ok=True)


def _import(ctr: str, archive: Path) -> list[str]:
    return [ctr, "--address", CONTAINERD, "--namespace", "k8s.io", "images", "import", str(archive)]


def _plan(plane: ControlPlane, node: str, folder: Path) -> Plan:
    programs = plane.spec.programs
    containerd = Daemon(
        "containerd",
        [programs["containerd"], "--config", str(folder / "containerd.toml")],
        ready=CONTAINERD,
        then=[_import(programs["ctr"], folder / f"{name}.tar") for name in ("pause", "busybox")],
    )
    kubelet = Daemon(
        "kubelet",
        [
            programs["kubelet"],
            f"--config={folder / 'kubelet.json'}",
            f"--kubeconfig={folder / 'kubelet.kubeconfig'}",
            f"--hostname-override={node}",
            f"--node-ip={network.node_address(plane.spec, node)}",
            "--root-dir=/var/lib/kubelet",
        ],
    )
    proxy = Daemon("kube-proxy", [programs["kube-proxy"], f"--config={folder / 'kube-proxy.json'}"])
    bins = dict.fromkeys(str(Path(p).parent) for p in programs.values())
    return Plan(
        hostname=node,
        folder=str(folder),
        visible=[
            str(p) for p in (plane.layout.folder, cache_folder(), _REPOSITORY, sys.prefix, sys.base_prefix)
        ],
        daemons=[containerd, kubelet, proxy],
        address=network.node_address(plane.spec, node),
        # containerd finds its shim and runc in PATH; the CNI plugins find iptables.
        environment={"PATH": ":".join([*bins, os.environ.get("PATH", os.defpath)]), "HOME": "/root"},
    )
