"""What the driver needs from the rest of the agent: protocols that `gkm.processes` fills in.

Everything here is structural: the agent returns objects of its own types with these attributes, and takes the
driver's as anything with the attributes it reads, so neither room imports the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from gkm.api.values import CacheKind
from gkm.store.errors import StoreError
from gkm.store.layers import Layer


class CacheName(NamedTuple):
    """A cache as a volume names it. Nothing says that it exists."""

    kind: CacheKind
    namespace: str | None
    """The namespace of a GKMCache; None for a ClusterGKMCache."""
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name if self.namespace is None else f'{self.namespace}/{self.name}'}"


class PodName(NamedTuple):
    """A pod as kubelet names it (``podInfoOnMount``)."""

    namespace: str
    name: str
    uid: str


class CacheAnswer(Protocol):
    """What a pod gets of a cache on this node, at this moment."""

    @property
    def digest(self) -> str | None:
        """The newest digest that is granted and sealed in the store; None when there is none."""

    @property
    def final(self) -> bool:
        """Without a digest: whether waiting changes nothing (incompatible, refused), so that the pod starts
        cold at once. Never true under ``whenUnavailable: Wait``."""

    @property
    def reason(self) -> str:
        """Without a digest: why, a stable CamelCase word."""

    @property
    def message(self) -> str:
        """Without a digest: why, for people."""

    @property
    def awaited(self) -> str | None:
        """Without a digest: the digest that is on its way, where one is known. A new one starts a new wait."""

    @property
    def wait_seconds(self) -> float | None:
        """How long this node's pods wait without a digest before they start cold; None: as long as it takes
        (``whenUnavailable: Wait``). To be told with a digest too: it may turn out not to be mountable."""

    @property
    def write_limit_bytes(self) -> int | None:
        """How much one pod may add; None: the node's default."""

    @property
    def known(self) -> bool:
        """Whether the cache certainly exists for this pod. Of one that may not, a pod is told once, at its cold
        start, and always the same: nobody learns what others have."""


class Caches(Protocol):
    """What this node has of which cache."""

    def lookup(
        self, kind: CacheKind, namespace: str | None, name: str, pod_namespace: str
    ) -> CacheAnswer | None:
        """The answer for a pod of `pod_namespace`, at once and without I/O; asking counts as the first use
        that ``staging: OnDemand`` waits for.

        None, or an answer that is not final and awaits no digest, when no grant gives such a cache to
        `pod_namespace`, be it that it does not exist or that it is not for that namespace: whoever writes pods
        must not learn which names exist, and nothing is told about the cache.
        """

    async def changed(self, timeout: float) -> None:
        """Return when an answer may have changed since the call, or after `timeout` seconds."""


class Trees(Protocol):
    """The sealed trees of this node, as they are mounted."""

    async def layer(self, digest: str, root: str) -> Layer | None:
        """The relocation layer of the tree of `digest` for a view seen at `root`, made where it is not there yet;
        None where the tree needs none. A call that is given up does not end the making.

        Raises:
            TreeMissingError, TreeDamagedError: the tree is gone, or not what was sealed.
            GKMError: it cannot be made.
        """

    async def lost(self, digest: str, error: StoreError) -> bool:
        """The tree of `digest` is gone or damaged, as `error` says; True: it comes again, so wait for it."""


class ContainerMount(Protocol):
    """One ``volumeMounts`` entry of a container."""

    @property
    def name(self) -> str:
        """The volume's name in the pod."""

    @property
    def mount_path(self) -> str: ...

    @property
    def sub_path(self) -> str | None: ...

    @property
    def sub_path_expr(self) -> str | None: ...

    @property
    def read_only(self) -> bool | None: ...


class PodVolume(Protocol):
    """One volume of a pod."""

    @property
    def name(self) -> str: ...

    @property
    def claim_name(self) -> str | None:
        """``persistentVolumeClaim.claimName``; None for every other kind of volume."""


class PodFacts(Protocol):
    """What the driver reads of a pod."""

    @property
    def host_users(self) -> bool | None:
        """``spec.hostUsers``; False gives the pod a user namespace."""

    @property
    def volumes(self) -> Sequence[PodVolume]: ...

    @property
    def containers(self) -> Sequence[Sequence[ContainerMount]]:
        """The mounts of each main container (not init containers), in the pod's order."""


class Pods(Protocol):
    """The pods of this node."""

    async def facts(self, pod: PodName) -> PodFacts | None:
        """The pod with this name and UID, fetched where the watch has not brought it yet.

        None where it cannot be had now (API server away, pod deleted). Returns within a few seconds.
        """


class Events(Protocol):
    """Events for people. Telling one never waits and never fails; repeats are aggregated."""

    def pod(self, pod: PodName, reason: str, message: str, *, warning: bool) -> None:
        """Tell something about a pod."""

    def cache(self, cache: CacheName, reason: str, message: str, *, warning: bool) -> None:
        """Tell something about a cache; ignored where it does not exist or the pod had no right to it."""


@dataclass(frozen=True, slots=True)
class MountedView:
    """One pod's private view of a cache."""

    target: Path
    """Where it is mounted, as kubelet named it."""
    cache: CacheName
    pod: PodName
    volume_id: str
    digest: str | None
    """The sealed tree below; None: the pod started cold."""
    mode: str
    """``overlay`` or ``copy``."""
    bounded: bool
    """Whether what the pod may add is limited by a filesystem of its own."""
    upper: Path
    """What the pod added or changed, once it is unmounted; hostile content (`gkm.caches.upper`)."""


class Usage(Protocol):
    """Who uses what, and counting of hits and misses."""

    async def mounted(self, view: MountedView, *, restored: bool) -> None:
        """`view` stands at its target; its pod starts when this returns, so observation begins here.

        `restored`: it was found mounted when this process started (`partial(Restarted)`). May be called
        again for the same target. Must not raise.
        """

    async def unmounting(self, view: MountedView) -> None:
        """Kubelet wants `view` gone: let go of it (a queued event or open descriptor makes unmounting
        EBUSY). Called again if unmounting has to be retried. Must not raise."""

    async def unmounted(self, view: MountedView) -> None:
        """`view` is gone from its target. `view.upper` may be counted, in a child, until this returns; it is
        deleted then. Called after kubelet has its answer. Must not raise."""
