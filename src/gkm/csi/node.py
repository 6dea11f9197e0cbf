"""The CSI Node service (CSI spec, "Node Service RPC"): publish, unpublish, stats. No staging, no controller."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import Message

from gkm.base.errors import GKMError
from gkm.csi.describe import limit_of, notes
from gkm.csi.errors import (
    CacheAwaitedError,
    InvalidRequestError,
    NotYetError,
    VolumeNotFoundError,
    call_error,
)
from gkm.csi.limits import bounds_for
from gkm.csi.machine import Machine
from gkm.csi.paths import Seen, seen_at
from gkm.csi.ports import Caches, Events, PodFacts, Pods, Trees
from gkm.csi.settings import Settings, selinux_context
from gkm.csi.settle import Outcome, Settler
from gkm.csi.stats import statistics
from gkm.csi.views import Views, resolve_target
from gkm.csi.volume import VolumeRequest, parse_publish, parse_target
from gkm.csi.waits import Waits
from gkm.kubelet.protos import csi_pb2 as wire
from gkm.kubelet.service import Method, Service
from gkm.store.errors import StoreFullError, TreeDamagedError, TreeMissingError
from gkm.store.host import HostedView, Wish
from gkm.store.layers import Layer
from gkm.store.linux.mountpoint import is_mount_point
from gkm.store.mode import Mode

WAITING = "WaitingForCache"
"""The reason of the Event about a pod that waits longer than one call of kubelet's."""

IN_MEMORY = "DiskFull"
"""The reason of the Event about a pod that starts cold on a node without room for what it adds."""

_Request = TypeVar("_Request", bound=Message)
_log = logging.getLogger(__name__)


class NodeService:
    """Answers kubelet. What each method raises reaches it as a status (`gkm.csi.errors`)."""

    def __init__(
        self,
        settings: Settings,
        views: Views,
        machine: Machine,
        *,
        caches: Caches,
        trees: Trees,
        pods: Pods,
        events: Events,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._views = views
        self._machine = machine
        self._settler = Settler(caches, settings, clock)
        self._trees = trees
        self._pods = pods
        self._events = events
        self._unknown_pods = Waits(clock)
        self._context = selinux_context()

    @property
    def service(self) -> Service:
        """The gRPC service."""
        return Service(
            "csi.v1.Node",
            {
                "NodeGetInfo": _method(wire.NodeGetInfoRequest, self._info),
                "NodeGetCapabilities": _method(wire.NodeGetCapabilitiesRequest, self._capabilities),
                "NodePublishVolume": _method(wire.NodePublishVolumeRequest, self._publish),
                "NodeUnpublishVolume": _method(wire.NodeUnpublishVolumeRequest, self._unpublish),
                "NodeGetVolumeStats": _method(wire.NodeGetVolumeStatsRequest, self._stats),
            },
        )

    async def _info(self, _: wire.NodeGetInfoRequest) -> wire.NodeGetInfoResponse:
        return wire.NodeGetInfoResponse(node_id=self._settings.node_name)

    async def _capabilities(self, _: wire.NodeGetCapabilitiesRequest) -> wire.NodeGetCapabilitiesResponse:
        kinds = wire.NodeServiceCapability.RPC
        return wire.NodeGetCapabilitiesResponse(
            capabilities=[
                wire.NodeServiceCapability(rpc=kinds(type=kind))
                for kind in (kinds.GET_VOLUME_STATS, kinds.VOLUME_CONDITION)
            ]
        )

    async def _publish(self, call: wire.NodePublishVolumeRequest) -> wire.NodePublishVolumeResponse:
        request = parse_publish(self._settings.kubelet_root, call)
        place = self._machine.place(await asyncio.to_thread(resolve_target, request.target.path))
        overtaken_after = place.unpublished
        # Before any question: kubelet publishes running pods again, whatever became of their cache since.
        if await self._machine.is_published(place):
            return wire.NodePublishVolumeResponse()
        # Begins now: with an API server that is away, pods must not wait for their cache first and then for this.
        self._waited_for_pod(request)
        try:
            outcome = await self._settler.settle(request.cache, request.pod)
        except CacheAwaitedError as error:
            # Kubelet tells it too, as FailedMount; this one can be looked for by its reason. Of a cache that may not
            # exist there is one Event, at the cold start.
            self._events.pod(request.pod, WAITING, str(error), warning=False)
            raise
        facts = await self._facts(request)
        seen = seen_at(facts, request)

        async def mount(outcome: Outcome) -> HostedView | None:
            layer = await self._layer(outcome, seen)

            def wish() -> Wish:
                return self._wish(request, place.target, outcome, facts, layer)

            return await self._machine.publish(place, overtaken_after, wish)

        try:
            made = await mount(outcome)
        except NotYetError:
            raise
        except GKMError as error:
            if await self._comes_again(outcome, error):
                raise NotYetError(f"{outcome.digest} is staged again: {error}") from error
            if outcome.digest is None or not outcome.cold_allowed:
                raise
            # Neither a tree that cannot be mounted on this node nor a disk that is full must keep the pod from
            # starting: an empty directory needs less than a view. Where there is no room for that either, kubelet
            # tries again.
            _log.error("%s cannot be mounted for pod %s: %s", outcome.digest, request.pod.name, error)
            outcome = outcome._replace(digest=None, reason=error.reason, message=str(error))
            made = await mount(outcome)
        if made is not None:
            self._tell(request, outcome, seen, in_memory=made.in_memory)
        return wire.NodePublishVolumeResponse()

    async def _facts(self, request: VolumeRequest) -> PodFacts | None:
        """The pod, without which neither paths nor user namespace are known; None once it was waited for.

        Raises:
            NotYetError: it cannot be had yet.
        """
        facts = await self._pods.facts(request.pod)
        if facts is None and self._waited_for_pod(request) < self._settings.missing_wait_seconds:
            raise NotYetError(f"pod {request.pod.namespace}/{request.pod.name} is not known to the node yet")
        return facts

    async def _layer(self, outcome: Outcome, seen: Seen) -> Layer | None:
        """The relocation layer for `seen`.

        Raises:
            NotYetError: making it takes longer than one call may.
            GKMError: it cannot be made.
        """
        if outcome.digest is None or seen.root is None:
            return None
        try:
            async with asyncio.timeout(self._settings.call_seconds):
                return await self._trees.layer(outcome.digest, seen.root)
        except TimeoutError as error:
            raise NotYetError(f"{outcome.digest} is being relocated to {seen.root}") from error

    async def _comes_again(self, outcome: Outcome, error: GKMError) -> bool:
        """Whether `error` tells of a tree that is gone, or damaged, and is staged again. Raises `StoreError`."""
        if outcome.digest is None or not isinstance(error, TreeMissingError | TreeDamagedError):
            return False
        try:
            return await self._trees.lost(outcome.digest, error)
        except StoreFullError as full:
            # A damaged tree cannot even be set aside: pods that may do without it do.
            _log.error("%s stays where it is: %s", outcome.digest, full)
            return False

    def _waited_for_pod(self, request: VolumeRequest) -> float:
        """Seconds since the first publish of the volume to this pod."""
        return self._unknown_pods.waited(request.cache, request.pod.uid)

    def _wish(
        self,
        request: VolumeRequest,
        target: Path,
        outcome: Outcome,
        facts: PodFacts | None,
        layer: Layer | None,
    ) -> Wish:
        """What to mount; blocks. Raises `TreeMissingError`, `StoreError`."""
        settings, store = self._settings, self._views.store
        tree = None if outcome.digest is None else store.tree(outcome.digest)
        if tree is None and outcome.digest is not None:
            raise TreeMissingError(f"{outcome.digest} is no longer staged: asking again")
        wanted = outcome.write_limit_bytes or settings.write_limit_bytes
        others = [limit_of(view) for view in self._views.all() if view.journal.state == "live"]
        bounds = bounds_for(wanted, others, settings.write_budget_bytes)
        # Overlay refuses idmapped mounts, which is how a pod in a user namespace gets its volumes.
        own_users = facts is not None and facts.host_users is False
        return Wish(
            tree=tree,
            target=target,
            place=self._views.place,
            mode=Mode.COPY if own_users else Mode.OVERLAY,
            bounds=bounds,
            layer=layer,
            read_only=request.read_only,
            context=self._context,
            notes=notes(request, bounds),
        )

    def _tell(self, request: VolumeRequest, outcome: Outcome, seen: Seen, *, in_memory: bool) -> None:
        pod, cache = request.pod, request.cache
        if outcome.digest is None:
            text = f"starts without {cache}: {outcome.message}"
            self._events.pod(pod, outcome.reason, text, warning=True)
            if outcome.known:
                text = f"pod {pod.namespace}/{pod.name} started without it: {outcome.message}"
                self._events.cache(cache, outcome.reason, text, warning=True)
            if in_memory:
                text = f"the node's disk is full: it may add little to {cache}, and that in its memory"
                self._events.pod(pod, IN_MEMORY, text, warning=True)
        elif seen.root is None:
            text = f"{cache} keeps the paths of its image, its entries may miss: {seen.why_not}"
            self._events.pod(pod, "NotRelocated", text, warning=True)
        if request.read_only or seen.read_only:
            text = f"{cache} is mounted read-only: what it does not hold cannot be compiled into it"
            self._events.pod(pod, "ReadOnlyMount", text, warning=False)

    async def _unpublish(self, call: wire.NodeUnpublishVolumeRequest) -> wire.NodeUnpublishVolumeResponse:
        if not call.volume_id:
            raise InvalidRequestError("the volume has no ID")
        target = parse_target(self._settings.kubelet_root, call.target_path)
        place = self._machine.place(await asyncio.to_thread(resolve_target, target.path))
        await self._machine.unpublish(place)
        return wire.NodeUnpublishVolumeResponse()

    async def _stats(self, call: wire.NodeGetVolumeStatsRequest) -> wire.NodeGetVolumeStatsResponse:
        if not call.volume_id or not call.volume_path:
            raise InvalidRequestError("stats need a volume ID and a path")
        return await asyncio.to_thread(self._look_at, call)

    def _look_at(self, call: wire.NodeGetVolumeStatsRequest) -> wire.NodeGetVolumeStatsResponse:
        """Blocks. Raises `InvalidRequestError`, `VolumeNotFoundError`, `OSError`."""
        target = resolve_target(Path(call.volume_path))
        view = self._views.published(target)
        if view is None or view.journal.notes.get("volume") != call.volume_id:
            raise VolumeNotFoundError(f"no volume {call.volume_id} of ours is at {call.volume_path}")
        return statistics(view, mounted=is_mount_point(target), events=self._events)


def _method(kind: type[_Request], handler: Callable[[_Request], Awaitable[Message]]) -> Method[_Request]:
    async def answer(request: _Request) -> Message:
        try:
            return await handler(request)
        except GKMError as error:
            raise call_error(error) from error

    return Method(kind, answer)
