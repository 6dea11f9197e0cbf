"""The network of a cluster with nodes.

A bridge in a network namespace of its own (the switch) connects the nodes and one interface of the host,
``gkm-NAME``, on which the API server listens. So the host neither forwards nor filters what nodes and pods
say to each other, and its own bridges and firewall rules do not matter.

Namespaces have no names: each lives as long as a process in it, so a killed cluster leaves none behind.
Addresses of cluster N: host 10.N.0.1, node i 10.N.0.(10+i), its pods 10.N.(128+i).0/24.
"""

import fcntl
import ipaddress
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devcluster import processes
from devcluster.commands import program, run
from devcluster.errors import LeftoverError
from devcluster.layout import Layout, Spec, node_names
from gkm.base.errors import UsageError

MAX_NODES = 100
_OCTETS = range(200, 250)
_SWITCH = "switch"


def interface(name: str) -> str:
    """The host's interface into cluster `name`."""
    return f"gkm-{name}"


def node_address(spec: Spec, node: str) -> str:
    """The address of a node."""
    return f"10.{spec.network}.0.{10 + _index(node)}"


def pod_cidr(spec: Spec, node: str) -> str:
    """The addresses of a node's pods."""
    return f"10.{spec.network}.{128 + _index(node)}.0/24"


def all_pods(spec: Spec) -> str:
    """The addresses of all pods."""
    return f"10.{spec.network}.128.0/17"


def _index(node: str) -> int:
    return int(node.rsplit("-", 1)[1])


@contextmanager
def claimed(name: str, nodes: int) -> Iterator[int | None]:
    """The second octet of a free 10.N.0.0/16, nobody else's until the interface exists; None without nodes.

    Raises `UsageError` if another state folder's cluster has the name, or all networks are taken.
    """
    if nodes == 0:
        yield None
        return
    fd = os.open("/run", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # any lock that leaves no file behind
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        if (Path("/sys/class/net") / interface(name)).exists():
            raise UsageError(
                f"interface {interface(name)} exists: a cluster of another state folder has this name"
            )
        yield free_octet(
            [r["dst"] for r in json.loads(run(["ip", "-json", "-4", "route", "show", "table", "all"]))]
        )
    finally:
        os.close(fd)


def free_octet(routes: list[str]) -> int:
    """The first octet whose network no route of the host leads into."""
    taken = [ipaddress.ip_network(dst) for dst in routes if dst != "default"]
    for octet in _OCTETS:
        network = ipaddress.ip_network(f"10.{octet}.0.0/16")
        if not any(network.overlaps(other) for other in taken):
            return octet
    raise UsageError("every network 10.200.0.0/16 … 10.249.0.0/16 is in use on this machine")


def create(layout: Layout, spec: Spec) -> None:
    """Make the switch, the host's interface and its routes; without nodes nothing is needed."""
    if spec.network is None:
        return
    link = interface(spec.name)
    identity = processes.spawn(
        [program("unshare"), "--net", program("sleep"), "infinity"],
        log=layout.folder / "switch.log",
        environment={"PATH": os.environ.get("PATH", os.defpath)},
        member=layout.folder,
    )
    processes.record(identity, layout.folder / f"{_SWITCH}.pid")
    wait_for_namespace(identity)
    switch = _inside(identity)
    run(["ip", "link", "add", link, "type", "veth", "peer", "name", "host", "netns", str(identity.pid)])
    run([*switch, "link", "add", "bridge", "type", "bridge"])
    for port in ("host", "bridge", "lo"):
        run([*switch, "link", "set", port, *(["master", "bridge"] if port == "host" else []), "up"])
    run(["ip", "address", "add", f"{spec.address}/24", "dev", link])
    run(["ip", "link", "set", link, "up"])
    for node in node_names(spec.nodes):
        run(["ip", "route", "add", pod_cidr(spec, node), "via", node_address(spec, node), "dev", link])


def connect(layout: Layout, spec: Spec, node: str, identity: processes.Identity) -> None:
    """Give the node in `identity`'s network namespace its interface, address and routes."""
    switch = processes.recorded(layout.folder / f"{_SWITCH}.pid")
    if switch is None:
        raise UsageError(
            f"the network of cluster {spec.name!r} is gone: `make cluster-down`, then `make cluster-up`"
        )
    wait_for_namespace(identity)
    run(
        [
            *_inside(switch),
            "link",
            "add",
            node,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            str(identity.pid),
        ]
    )
    run([*_inside(switch), "link", "set", node, "master", "bridge", "up"])
    inside = _inside(identity)
    run([*inside, "link", "set", "lo", "up"])
    run([*inside, "address", "add", f"{node_address(spec, node)}/24", "dev", "eth0"])
    run([*inside, "link", "set", "eth0", "up"])
    run([*inside, "route", "add", "default", "via", spec.address])
    for other in node_names(spec.nodes):
        if other != node:
            run([*inside, "route", "add", pod_cidr(spec, other), "via", node_address(spec, other)])


def wait_for_namespace(identity: processes.Identity) -> None:
    """Return when the process has left our network namespace (it does so right after it was started)."""
    ours = Path("/proc/self/ns/net").readlink()
    deadline = time.monotonic() + 10
    while identity.alive():
        if Path(f"/proc/{identity.pid}/ns/net").readlink() != ours:
            return
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    raise UsageError(
        "this machine refuses new network namespaces (is this a container without CAP_SYS_ADMIN?)"
    )


def wait_until_disconnected(layout: Layout, node: str) -> None:
    """Return when the interface of `node`, whose processes have ended, is gone from the switch.

    Raises `LeftoverError` if it stays.
    """
    switch = processes.recorded(layout.folder / f"{_SWITCH}.pid")
    deadline = time.monotonic() + 20
    while switch is not None:
        links = json.loads(run([*_inside(switch), "-json", "link", "show"]))
        if node not in {link["ifname"] for link in links}:
            return
        if time.monotonic() > deadline:
            raise LeftoverError(f"the interface of {node} stays")
        time.sleep(0.05)


def wait_until_gone(spec: Spec) -> None:
    """The kernel removes a namespace's interfaces a moment after its last process: wait for ours.

    Raises `LeftoverError` if it stays.
    """
    if spec.network is None:
        return
    path = Path("/sys/class/net") / interface(spec.name)
    deadline = time.monotonic() + 20
    while path.exists():
        if time.monotonic() > deadline:
            raise LeftoverError(f"interface {path.name} stays: `ip link delete {path.name}`")
        time.sleep(0.02)


def _inside(identity: processes.Identity) -> list[str]:
    return ["nsenter", "--target", str(identity.pid), "--net", "ip"]
