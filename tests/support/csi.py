"""The driver's neighbours as a test sets them, and kubelet's side of its sockets."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc.aio

from gkm.api.values import CacheKind
from gkm.csi.ports import CacheName, MountedView, PodName
from gkm.kubelet.protos import csi_pb2 as wire
from gkm.store.errors import StoreError, TreeMissingError
from gkm.store.layers import Layer
from gkm.store.linux import mountinfo
from gkm.store.store import Store


@dataclass
class Answer:
    """What a node says of a cache."""

    digest: str | None = None
    final: bool = False
    reason: str = "Staging"
    message: str = "it is being staged"
    awaited: str | None = None
    wait_seconds: float | None = 30.0
    write_limit_bytes: int | None = None
    known: bool = True


class Caches:
    """Answers as a test sets them."""

    def __init__(self) -> None:
        self.answers: dict[CacheName, Answer] = {}
        self.asked = 0
        self._changed = asyncio.Event()

    def lookup(self, kind: CacheKind, namespace: str | None, name: str, pod_namespace: str) -> Answer | None:
        self.asked += 1
        return self.answers.get(CacheName(kind, namespace, name))

    async def changed(self, timeout: float) -> None:
        await self._changed.wait()

    def say(self, cache: CacheName, answer: Answer) -> None:
        self.answers[cache] = answer
        self._changed.set()
        self._changed = asyncio.Event()


def mount(name: str, path: str, sub: str | None = None, *, expr: str | None = None, ro: bool = False) -> Any:
    """One volumeMounts entry."""
    return SimpleNamespace(name=name, mount_path=path, sub_path=sub, sub_path_expr=expr, read_only=ro)


def pod_facts(
    *containers: Sequence[Any], claims: dict[str, str] | None = None, host_users: bool = True
) -> Any:
    """A pod with these containers' mounts, and volumes that name claims."""
    volumes = [SimpleNamespace(name=name, claim_name=claim) for name, claim in (claims or {}).items()]
    return SimpleNamespace(host_users=host_users, volumes=volumes, containers=containers)


@dataclass
class Pods:
    """Pods as a test sets them."""

    known: dict[str, Any] = field(default_factory=dict)

    async def facts(self, pod: PodName) -> Any:
        return self.known.get(pod.uid)


@dataclass
class Trees:
    """Relocates in this process, and notes which trees were lost."""

    store: Store
    lost_digests: list[str] = field(default_factory=list)
    comes_again: bool = False

    async def layer(self, digest: str, root: str) -> Layer | None:
        tree = await asyncio.to_thread(self.store.tree, digest)
        if tree is None:
            raise TreeMissingError(digest)
        return await asyncio.to_thread(self.store.relocated, tree, root)

    async def lost(self, digest: str, error: StoreError) -> bool:
        self.lost_digests.append(digest)
        return self.comes_again


@dataclass
class Events:
    """What was told, in order: (about, reason, message)."""

    told: list[tuple[object, str, str]] = field(default_factory=list)

    def pod(self, pod: PodName, reason: str, message: str, *, warning: bool) -> None:
        self.told.append((pod, reason, message))

    def cache(self, cache: CacheName, reason: str, message: str, *, warning: bool) -> None:
        self.told.append((cache, reason, message))


@dataclass
class Usage:
    """What was told, in order, and what the uppers held."""

    told: list[tuple[str, MountedView]] = field(default_factory=list)
    uppers: dict[Path, set[str]] = field(default_factory=dict)

    async def mounted(self, view: MountedView, *, restored: bool) -> None:
        # Not Path.is_mount, which sees no directory bound within its filesystem.
        assert str(view.target) in {entry.target for entry in mountinfo.mounts()}
        self.told.append(("restored" if restored else "mounted", view))

    async def unmounting(self, view: MountedView) -> None:
        self.told.append(("unmounting", view))

    async def unmounted(self, view: MountedView) -> None:
        self.told.append(("unmounted", view))
        if view.upper.is_dir():
            self.uppers[view.target] = {p.relative_to(view.upper).as_posix() for p in view.upper.rglob("*")}

    def words(self) -> list[str]:
        return [word for word, _ in self.told]


def target(kubelet_root: Path, uid: str, volume: str = "cache") -> Path:
    """Where kubelet wants a CSI volume."""
    return kubelet_root / "pods" / uid / "volumes" / "kubernetes.io~csi" / volume / "mount"


def publish_request(
    path: Path,
    cache: str,
    pod: PodName,
    *,
    namespace: str | None = None,
    inline: bool = True,
    ro: bool = False,
) -> wire.NodePublishVolumeRequest:
    """As kubelet 1.36 sends it."""
    context = {
        "csi.gkm.io/GKMCache": cache,
        "csi.storage.k8s.io/pod.name": pod.name,
        "csi.storage.k8s.io/pod.namespace": pod.namespace,
        "csi.storage.k8s.io/pod.uid": pod.uid,
        "csi.storage.k8s.io/ephemeral": str(inline).lower(),
    }
    if namespace is not None:
        context["csi.gkm.io/namespace"] = namespace
    access = wire.VolumeCapability.AccessMode
    capability = wire.VolumeCapability(
        mount=wire.VolumeCapability.MountVolume(), access_mode=access(mode=access.MULTI_NODE_MULTI_WRITER)
    )
    return wire.NodePublishVolumeRequest(
        volume_id=f"csi-{pod.uid}",
        target_path=str(path),
        volume_capability=capability,
        volume_context=context,
        readonly=ro,
    )


class Kubelet:
    """Calls the driver on its socket."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    async def call(self, method: str, request: Any, answer: Any) -> Any:
        """One call of ``csi.v1.Node`` or another service named in full."""
        path = f"/{method}" if "/" in method else f"/csi.v1.Node/{method}"
        unary = self._channel.unary_unary(
            path, request_serializer=type(request).SerializeToString, response_deserializer=answer.FromString
        )
        return await unary(request)

    async def publish(self, request: wire.NodePublishVolumeRequest) -> None:
        await self.call("NodePublishVolume", request, wire.NodePublishVolumeResponse)

    async def unpublish(self, path: Path, volume: str = "any") -> None:
        request = wire.NodeUnpublishVolumeRequest(volume_id=volume, target_path=str(path))
        await self.call("NodeUnpublishVolume", request, wire.NodeUnpublishVolumeResponse)

    async def stats(self, path: Path, volume: str) -> wire.NodeGetVolumeStatsResponse:
        request = wire.NodeGetVolumeStatsRequest(volume_id=volume, volume_path=str(path))
        answer = await self.call("NodeGetVolumeStats", request, wire.NodeGetVolumeStatsResponse)
        assert isinstance(answer, wire.NodeGetVolumeStatsResponse)
        return answer


@asynccontextmanager
async def dialled(socket: Path) -> AsyncIterator[Kubelet]:
    """A connection to `socket`."""
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        yield Kubelet(channel)
