"""A node of the cluster whose store lies on a small disk of its own, to be filled."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devcluster import processes
from devcluster.node import inside
from support.devcluster import Cluster
from support.installed import eventually
from support.leaks import held
from support.outages import agent_on, all_ready, replace_agent
from support.small_disk import make_image

_IMAGE, _STORE = "lib/small-disk.img", "/var/lib/gkm"


@contextmanager
def store_on_small_disk(
    cluster: Cluster, namespace: str, node: str, size: int, inodes: int
) -> Iterator[Path]:
    """For the block, the agent of `node` has an empty store on a filesystem of `size` bytes; where it is seen from
    here. At the end the pods of `namespace` are deleted and the store of before is there again.
    """
    image = cluster.layout.node(node) / _IMAGE
    make_image(image, size, inodes)
    try:
        # The node sees the image below its own /var.
        _on(cluster, node, "mount", "-o", "loop", f"/var/{_IMAGE}", _STORE)
        try:
            new_agent(cluster, node)
            yield _root(cluster, node) / _STORE.lstrip("/")
        finally:
            # Before the store with their journals goes.
            pods_gone(cluster, namespace, node)
            # The agent's container holds the filesystem until it ends.
            _on(cluster, node, "umount", "--lazy", _STORE)
            new_agent(cluster, node)
    finally:
        image.unlink()


def pods_gone(cluster: Cluster, namespace: str, node: str, *pods: str) -> None:
    """Delete `pods`, all without any, and wait until `node` holds nothing of them, nor anything of no pod."""
    where = ("-n", namespace, "pod", *pods, "-o", "jsonpath={..metadata.uid}")
    before = set(cluster.kubectl("get", *where).split())
    cluster.kubectl("delete", "-n", namespace, "pod", *(pods or ["--all"]))

    def gone() -> bool:
        now = held(cluster, node)
        # Where views lie no more of them is left than pods have.
        return not before & now.uids and len(now.private) <= len(now.targets)

    eventually(gone, "the pods' mounts are gone", 120)


def new_agent(cluster: Cluster, node: str) -> None:
    """Kill the agent of `node`, and wait until another is ready."""
    before = agent_on(cluster, node)
    replace_agent(cluster, node)
    eventually(lambda: agent_on(cluster, node) not in ("", before), "another agent", 120)
    all_ready(cluster)


def _on(cluster: Cluster, node: str, *command: str) -> None:
    subprocess.run([*inside(cluster.layout, node), *command], check=True)


def _root(cluster: Cluster, node: str) -> Path:
    identity = processes.recorded(cluster.layout.node(node) / "init.pid")
    assert identity is not None, f"{node} does not run"
    return Path(f"/proc/{identity.pid}/root")
