"""What GKM holds on nodes and in the API server, and what of it nobody accounts for any more."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster import processes
from devcluster.layout import node_names
from gkm.store.linux.mountinfo import MountEntry, parse_mountinfo
from support.devcluster import Cluster
from support.installed import SYSTEM, eventually_none

_PLACE = "plugins/csi.gkm.io/views"
_OURS = ("-l", "app.kubernetes.io/managed-by=gkm")
_CACHE = "gkm.io/cache-uid"


@dataclass(frozen=True)
class Held:
    """What one node holds. All of it is seen from outside, so that asking changes nothing."""

    targets: Counter[str]
    """Where pods have mounts of ours, and how many lie on top of each other there."""
    private: frozenset[str]
    """The IDs of views whose private filesystem is mounted."""
    places: frozenset[str]
    """The IDs below the directory of private filesystems."""
    loops: frozenset[str]
    """The IDs of views that a loop device is backed by."""
    journals: dict[str, dict[str, Any]]
    """By ID."""
    unfinished: frozenset[str]
    """What lies in the store's ``staging`` and ``trash``."""
    trees: frozenset[str]
    """Digests."""

    @property
    def uids(self) -> set[str]:
        """Pods that have a mount of ours."""
        return {_pod_uid(target) for target in self.targets}


def held(cluster: Cluster, node: str) -> Held:
    """What `node` holds now."""
    folder = cluster.layout.node(node)
    identity = processes.recorded(folder / "init.pid")
    assert identity is not None, f"{node} does not run"
    mounts = parse_mountinfo(Path(f"/proc/{identity.pid}/mountinfo").read_text())
    # As the node sees it: its store may have a disk of its own, and views may lie in memory.
    lib = Path(f"/proc/{identity.pid}/root/var/lib")
    store, place = lib / "gkm", lib / "kubelet" / _PLACE
    places = frozenset(path.name for path in place.iterdir()) if place.is_dir() else frozenset()
    unfinished = {
        f"{name}/{path.name}"
        for name in ("staging", "trash")
        for path in (store / name).iterdir()
        if path.name != ".lock"
    }
    return Held(
        targets=Counter(mount.target for mount in mounts if _is_published(mount)),
        private=frozenset(_id(mount.target) for mount in mounts if f"/{_PLACE}/" in mount.target),
        places=places,
        loops=frozenset(_loops()) & (places | {"deleted"}),
        journals=dict(_journals(store / "mounts")) | (dict(_journals(place)) if place.is_dir() else {}),
        unfinished=frozenset(unfinished),
        trees=frozenset(path.name.replace("-", ":", 1) for path in (store / "trees").iterdir()),
    )


def leaks(cluster: Cluster) -> list[str]:
    """What no pod and no cache accounts for, a line each; and the mounts that pods lack."""
    pods = _objects(cluster, "pod", "-A")
    alive = {pod["metadata"]["uid"]: pod for pod in pods if pod["status"]["phase"] in ("Pending", "Running")}
    caches = {
        each["metadata"]["uid"]
        for kind in ("gkmcaches", "clustergkmcaches")
        for each in _objects(cluster, kind, "-A")
    }
    granted = {
        digest for grant in _objects(cluster, "gkmgrants") for digest in grant["spec"].get("digests", [])
    }
    found = [*_forgotten_objects(cluster, caches)]
    for node in node_names(cluster.spec.nodes):
        found += [f"{node}: {what}" for what in _on_node(held(cluster, node), set(alive), granted)]
    return found


def nothing_leaks(cluster: Cluster, seconds: float = 120) -> None:
    """Wait until nothing is left over: what ends takes its time, and trees are kept for half a minute."""
    eventually_none(lambda: leaks(cluster), "nothing is left over", seconds)


def _on_node(node: Held, alive: set[str], granted: set[str]) -> Iterator[str]:
    yield from (f"mounted {n} times: {target}" for target, n in node.targets.items() if n > 1)
    yield from (f"a pod that is gone has {t}" for t in node.targets if _pod_uid(t) not in alive)
    live = {name for name, journal in node.journals.items() if journal["state"] == "live"}
    yield from (f"a view that ended: {name}" for name in node.journals.keys() - live)
    yield from (
        f"a view without its mount: {name}"
        for name in live
        if node.journals[name]["target"] not in node.targets
    )
    for what, names in (("mount", node.private), ("directory", node.places), ("loop device", node.loops)):
        yield from (f"a {what} of no view: {name}" for name in names - live)
    yield from (f"unfinished: {name}" for name in node.unfinished)
    mounted = {node.journals[name]["digest"] for name in live}
    yield from (f"a tree that nobody needs: {digest}" for digest in node.trees - granted - mounted)


def _forgotten_objects(cluster: Cluster, caches: set[str]) -> Iterator[str]:
    for kind, words in (("pv", _OURS), ("pvc", ("-A", *_OURS)), ("secret", ("-n", SYSTEM, *_OURS))):
        for each in _objects(cluster, kind, *words):
            if each["metadata"]["labels"].get(_CACHE) not in caches:
                yield f"{kind} {each['metadata']['name']} of no cache"
    for grant in _objects(cluster, "gkmgrants"):
        if grant["metadata"]["name"] not in caches:
            yield f"grant {grant['metadata']['name']} of no cache"


def _objects(cluster: Cluster, kind: str, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cluster.kubectl("get", kind, *words, "-o", "json"))["items"]
    return found


def _is_published(mount: MountEntry) -> bool:
    """Whether kubelet asked for this mount: no other CSI driver is on these nodes."""
    return mount.target.endswith("/mount") and "/volumes/kubernetes.io~csi/" in mount.target


def _id(path: str) -> str:
    """The ID of the view whose files lie at `path`."""
    return path.partition(f"/{_PLACE}/")[2].partition("/")[0]


def _pod_uid(target: str) -> str:
    return target.partition("/pods/")[2].partition("/")[0]


def _loops() -> Iterator[str]:
    """The IDs of views that back loop devices, of all clusters of this machine; ``deleted`` where the view is."""
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            path = file.read_text().strip()
        except OSError:
            continue  # detached meanwhile
        if f"/{_PLACE}/" in path:
            yield "deleted" if path.endswith("(deleted)") else _id(path)


def _journals(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in folder.iterdir():
        try:
            yield path.name, json.loads((path / "journal.json").read_text())
        except FileNotFoundError:
            continue  # not begun, or ended meanwhile
