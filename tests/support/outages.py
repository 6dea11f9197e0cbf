"""What happens to GKM's own processes on a bad day."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from devcluster import processes
from support.devcluster import Cluster
from support.installed import SYSTEM, eventually

_PROGRAM = b"/usr/local/bin/gkm-agent"


def agent_on(cluster: Cluster, node: str) -> str:
    """The name of the agent's pod on `node`, empty while there is none."""
    return _agent(cluster, node, "{.metadata.name}")


def kill_agent(cluster: Cluster, node: str) -> int:
    """End the agent on `node` with SIGKILL, whatever it is doing; how many processes that were.

    Kubelet starts its container again: at once after the first time, later and later after more.
    """
    uid = _agent(cluster, node, "{.metadata.uid}")
    found = _agents_of(uid) if uid else []
    processes.end(found)
    return len(found)


def agent_process(cluster: Cluster, node: str) -> processes.Identity:
    """The agent on `node`, once it is the only one there: kubelet may start the container of a pod again that is
    being replaced, and for a moment there are two."""
    store = (cluster.layout.node(node) / "lib/gkm").stat()

    def the_only() -> list[processes.Identity]:
        uid = _agent(cluster, node, "{.metadata.uid}")
        found = _agents(lambda process: os.path.samestat((process / "root/var/lib/gkm").stat(), store))
        return found if uid and len(found) == 1 and found == _agents_of(uid) else []

    (agent,) = eventually(the_only, f"one agent on {node}", 180)
    return agent


def replace_agent(cluster: Cluster, node: str) -> int:
    """`kill_agent`, and another pod in its place, which kubelet starts at once."""
    name, killed = agent_on(cluster, node), kill_agent(cluster, node)
    if name:
        _force_delete(cluster, name, "--ignore-not-found")
    return killed


def leader(cluster: Cluster) -> str:
    """The pod that the operator's lease names, whether it still runs or not; empty once it gave the lease up."""
    where = ("-n", SYSTEM, "get", "lease", "gkm-operator", "-o", "jsonpath={.spec.holderIdentity}")
    return cluster.kubectl(*where).partition("_")[0]


def force_delete_leader(cluster: Cluster) -> str:
    """Delete the pod of the operator that leads, without waiting for it to end; its name, empty if none leads."""
    name = leader(cluster)
    return name if name and _force_delete(cluster, name, "--ignore-not-found") else ""


def force_delete_operators(cluster: Cluster) -> set[str]:
    """The same with every pod of the operator, so that none is left that could follow at once; their names."""
    return _force_delete(cluster, "-l", "app.kubernetes.io/name=gkm-operator")


def _force_delete(cluster: Cluster, *which: str) -> set[str]:
    words = ("delete", "pod", *which, "--force", "--grace-period=0", "--wait=false", "-o", "name")
    return {name.removeprefix("pod/") for name in cluster.kubectl("-n", SYSTEM, *words).split()}


def all_ready(cluster: Cluster, seconds: float = 180) -> None:
    """Wait until GKM is all there again."""
    where = ("-n", SYSTEM, "get", "pod", "-o", "jsonpath={.items[*].status.containerStatuses[*].ready}")
    wanted = 2 + cluster.spec.nodes
    eventually(
        lambda: cluster.kubectl(*where).split() == ["true"] * wanted, "operator and agents are ready", seconds
    )


def _agent(cluster: Cluster, node: str, path: str) -> str:
    words = ("-n", SYSTEM, "get", "pod", "-l", "app.kubernetes.io/name=gkm-agent")
    # The pod that leaves and the one that comes may be there at once: the last is the one that runs.
    chosen = f"jsonpath={{range .items[?(@.spec.nodeName=='{node}')]}}{path} {{end}}"
    names = cluster.kubectl(*words, "--sort-by=.metadata.creationTimestamp", "-o", chosen).split()
    return names[-1] if names else ""


def _agents_of(pod: str) -> list[processes.Identity]:
    """The agents in the pod with this UID."""
    return _agents(lambda process: f"/pod{pod}/" in (process / "cgroup").read_text())


def _agents(where: Callable[[Path], bool]) -> list[processes.Identity]:
    """The processes that run the agent's program, with their folders below ``/proc`` as `where` wants them."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # no process, or ended meanwhile
            argv = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else [b""]
            if argv[0].startswith(b"/usr/bin/python3") and _PROGRAM in argv[:4] and where(entry):
                identity = processes.Identity.of(int(entry.name))
                found += [identity] if identity else []
    return found
