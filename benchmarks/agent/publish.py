"""NodePublishVolume and NodeUnpublishVolume, called as kubelet calls them, one at a time."""

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench_processes import cpu_seconds, members
from bench_site import Site

from gkm.csi.ports import PodName
from support import csi

_KUBELET = Path("/var/lib/kubelet")
_COUNTED = 2.0
"""Seconds until what the last view held is counted."""
_SOCKET = _KUBELET / "plugins" / "csi.gkm.io" / "csi.sock"


@dataclass
class Calls:
    """Seconds of each call."""

    publish: list[float] = field(default_factory=list)
    unpublish: list[float] = field(default_factory=list)
    cpu: float = 0.0
    """What the agent and its children computed for one of each, counting included; other work on the machine does
    not show here."""


async def measure_calls(site: Site, pod: PodName, cache: str, *, count: int) -> Calls:
    """Publish `cache` for `pod`, which mounts its claim, `count` times beside kubelet's own mount, and unpublish.

    A persistent volume's target names the volume, not the pod's word for it: the agent takes any.
    """
    calls = Calls()
    used = cpu_seconds(members(site.agent_uid))
    # Through the node's root: the node's socket is not in this mount namespace.
    async with csi.dialled(site.node_root / _SOCKET.relative_to("/")) as kubelet:
        for number in range(count):
            target = csi.target(_KUBELET, pod.uid, f"bench-{number}")
            seen = site.node_root / target.relative_to("/")
            seen.parent.mkdir()  # as kubelet does
            try:
                request = csi.publish_request(target, cache, pod, namespace=pod.namespace, inline=False)
                began = time.perf_counter()
                await kubelet.publish(request)
                calls.publish.append(time.perf_counter() - began)
                began = time.perf_counter()
                await kubelet.unpublish(target, request.volume_id)
                calls.unpublish.append(time.perf_counter() - began)
            finally:
                seen.parent.rmdir()
    await asyncio.sleep(_COUNTED)
    calls.cpu = (cpu_seconds(members(site.agent_uid)) - used) / count
    return calls
