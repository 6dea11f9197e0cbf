"""The path at which a pod will see its volume, read from the pod: what relocation is for."""

import posixpath
from collections.abc import Collection
from typing import NamedTuple

from gkm.base.errors import UsageError
from gkm.caches.relocation import check_mount_root
from gkm.csi.ports import ContainerMount, PodFacts
from gkm.csi.volume import VolumeRequest


class Seen(NamedTuple):
    """Where the volume's root appears."""

    root: str | None
    """None: the cache keeps the paths of its image."""
    why_not: str = ""
    """For people, where there is no root."""
    read_only: bool = False
    """Whether a container mounts it read-only."""


def seen_at(facts: PodFacts | None, request: VolumeRequest) -> Seen:
    """Where `request`'s volume appears in its pod (None: nothing is known of it).

    The first main container that mounts it decides: its ``mountPath``, less its ``subPath``. No root where it
    is mounted at several paths, through ``subPathExpr``, or at a path that no file can hold.
    """
    if facts is None:
        return Seen(None, "the pod's containers are not known to the node yet")
    return volume_seen_at(facts, _volume_names(facts, request))


def volume_seen_at(facts: PodFacts, names: Collection[str]) -> Seen:
    """Where the volume that the pod calls by one of `names` appears in it, as `seen_at` says."""
    for container in facts.containers:
        mounts = [mount for mount in container if mount.name in names]
        if mounts:
            read_only = any(m.read_only for c in facts.containers for m in c if m.name in names)
            return _root(mounts)._replace(read_only=read_only)
    return Seen(None, "no main container mounts the volume")


def _volume_names(facts: PodFacts, request: VolumeRequest) -> frozenset[str]:
    if request.inline:
        return frozenset({request.target.volume})
    # The claim has the cache's name; the target path holds the PersistentVolume's.
    return frozenset(volume.name for volume in facts.volumes if volume.claim_name == request.cache.name)


def _root(mounts: list[ContainerMount]) -> Seen:
    roots = set()
    for mount in mounts:
        if mount.sub_path_expr:
            return Seen(None, "subPathExpr is known only to the container: use subPath, or none")
        path, below = posixpath.normpath(mount.mount_path), posixpath.normpath(mount.sub_path or ".")
        if below != ".":
            if not path.endswith(f"/{below}") or path == f"/{below}":
                return Seen(None, f"mountPath {path!r} does not end in its subPath {below!r}")
            path = path.removesuffix(f"/{below}")
        roots.add(path)
    if len(roots) > 1:
        return Seen(None, "one container mounts the volume at several paths")
    (root,) = roots
    try:
        return Seen(check_mount_root(root))
    except UsageError as error:
        return Seen(None, str(error))
