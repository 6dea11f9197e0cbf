"""The control groups of a cluster's pods: one subtree per cluster, removed with it.

Kubelet makes its groups below ``/gkm-devcluster-NAME/NODE`` (`cgroupRoot`), in every hierarchy of cgroup v1
or in the one of v2 (cgroups(7)).
"""

import time
from pathlib import Path

from devcluster.errors import LeftoverError

_MOUNT = Path("/sys/fs/cgroup")


def _hierarchies() -> list[Path]:
    """The roots of all hierarchies: v2's one, or v1's and the v2 tree that systemd mounts beside those."""
    if (_MOUNT / "cgroup.controllers").exists():
        return [_MOUNT]
    return [path for path in _MOUNT.iterdir() if path.is_dir() and not path.is_symlink()]


def _top(cluster: str) -> str:
    return f"gkm-devcluster-{cluster}"


def root(cluster: str, node: str) -> str:
    """Kubelet's `cgroupRoot` for a node."""
    return f"/{_top(cluster)}/{node}"


def create(cluster: str, node: str) -> None:
    """Make the node's group in every hierarchy: kubelet refuses to make its own root."""
    for hierarchy in _hierarchies():
        path = hierarchy
        for part in (_top(cluster), node):
            _enable_controllers(path)
            path = path / part
            path.mkdir(exist_ok=True)
            _inherit_cpuset(path)


def _enable_controllers(path: Path) -> None:
    """v2 gives a group's children the controllers that the group enables for them."""
    listed = path / "cgroup.controllers"
    if listed.exists() and (names := listed.read_text().split()):
        (path / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in names))


def _inherit_cpuset(path: Path) -> None:
    """v1 starts a cpuset empty, and nothing can run in an empty one; v2 takes empty for the parent's."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = path / name
        if file.exists() and not (path / "cgroup.controllers").exists() and not file.read_text().strip():
            file.write_text((path.parent / name).read_text())


def leftovers(cluster: str, node: str = "") -> list[Path]:
    """The groups of the cluster, or of one of its nodes, that exist, deepest first."""
    tops = [hierarchy / _top(cluster) / node for hierarchy in _hierarchies()]
    return [path for top in tops if top.exists() for path in _deepest_first(top)]


def _deepest_first(path: Path) -> list[Path]:
    below = [found for child in path.iterdir() if child.is_dir() for found in _deepest_first(child)]
    return [*below, path]


def remove(cluster: str, node: str = "") -> None:
    """Remove all groups of the cluster or node, whose processes have ended. Raises `LeftoverError`."""
    deadline = time.monotonic() + 10
    for path in leftovers(cluster, node):
        while True:
            try:
                path.rmdir()
            except OSError as error:
                # A group counts as busy until the kernel has buried its last process.
                if time.monotonic() > deadline:
                    raise LeftoverError(f"control group {path} stays: {error.strerror}") from error
                time.sleep(0.02)
            else:
                break
