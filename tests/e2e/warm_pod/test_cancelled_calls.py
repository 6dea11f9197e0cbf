"""Calls to the installed agent that are given up: what they began goes again, without anybody asking for it."""

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from devcluster.layout import node_names
from gkm.csi.ports import PodName
from gkm.store.linux.inotify import IN_CREATE, Inotify
from support import csi
from support.devcluster import Cluster
from support.figures import note
from support.installed import apply, eventually, eventually_none
from support.leaks import Held, held
from support.steps import Watched
from support.warm_pods import claim, is_running, sleeper

pytestmark = [pytest.mark.root, pytest.mark.triton, pytest.mark.timeout(600)]

_SEEDS = 100
_AT_ONCE = 4
_CALLS = 5
"""Whose fastest tells how long one takes."""
_KUBELET = Path("/var/lib/kubelet")
_SOCKET = _KUBELET / "plugins" / "csi.gkm.io" / "csi.sock"


async def test_a_hundred_calls_given_up_and_unpublished_at_once_leave_nothing(
    gkm: Any, namespace: str
) -> None:
    """Beside a pod's own mount, which stays as it is."""
    cluster, node = gkm.cluster, node_names(gkm.cluster.spec.nodes)[0]
    pod = await asyncio.to_thread(_running_pod, cluster, namespace, node)
    write = ("-n", namespace, "exec", pod.name, "--", "touch", "/cache/mine")
    await asyncio.to_thread(cluster.kubectl, *write)
    watched = Watched.of(cluster, node)
    before = held(cluster, node)
    ended: Counter[str] = Counter()
    with _made_in(watched.store / "mounts") as made:
        # Through the node's root: the node's socket is not in this mount namespace.
        async with csi.dialled(watched.root / _SOCKET.relative_to("/")) as kubelet:
            call = _Call(kubelet, pod, watched.root)
            answered = min([await call.answered(f"first-{number}") for number in range(_CALLS)])
            for first in range(0, _SEEDS, _AT_ONCE):
                seeds = range(first, first + _AT_ONCE)
                ended.update(await asyncio.gather(*(call.given_up(seed, answered) for seed in seeds)))
            # None of them keeps others from being served.
            await call.answered("last")
    left = partial(_left, cluster, node, before)
    await asyncio.to_thread(eventually_none, left, "nothing of them is left", 60)
    call.remove_directories()

    note(f"{ended['given up']} of {_SEEDS} calls given up, {ended['answered']} answered before")
    note(f"{len(made)} views were made; a call alone is answered after {answered:.3f} s")
    # Else they were given up before they began, or after they had ended.
    assert ended["given up"] > _SEEDS // 4
    assert len(made) > _SEEDS // 4
    own = ("-n", namespace, "exec", pod.name, "--", "test", "-f", "/cache/mine")
    await asyncio.to_thread(cluster.kubectl, *own)


@dataclass
class _Call:
    """Kubelet's calls for `pod`, each with a target of its own."""

    kubelet: csi.Kubelet
    pod: PodName
    root: Path
    """The node's files, as this process reaches them."""

    async def answered(self, name: str) -> float:
        """Publish and unpublish; the seconds that publishing takes."""
        target, began = self.target(name), time.perf_counter()
        await self.kubelet.publish(self.request(target))
        took = time.perf_counter() - began
        await self.kubelet.unpublish(target)
        return took

    async def given_up(self, seed: int, answered: float) -> str:
        """Give a call up that takes about so long, at some moment, and unpublish at once; how it ended."""
        target = self.target(f"seed-{seed}")
        publishing = asyncio.ensure_future(self.kubelet.publish(self.request(target)))
        # Several at once take longer than one.
        await asyncio.sleep(random.Random(seed).uniform(0, _AT_ONCE * answered))
        publishing.cancel()
        await self.kubelet.unpublish(target)
        with contextlib.suppress(asyncio.CancelledError):
            await publishing
            return "answered"
        return "given up"

    def target(self, name: str) -> Path:
        """A new target, in a directory that is there, as kubelet makes it."""
        target = csi.target(_KUBELET, self.pod.uid, name)
        (self.root / target.parent.relative_to("/")).mkdir()
        return target

    def remove_directories(self) -> None:
        """Remove those directories; a target that is left in one of them keeps it, and raises `OSError`."""
        volumes = csi.target(self.root / _KUBELET.relative_to("/"), self.pod.uid).parents[1]
        for path in volumes.iterdir():
            if path.name.startswith(("first-", "seed-", "last")):
                path.rmdir()

    def request(self, target: Path) -> Any:
        # A persistent volume's target names the volume, not the pod's word for it: the agent takes any.
        return csi.publish_request(target, "kernels", self.pod, namespace=self.pod.namespace, inline=False)


@contextlib.contextmanager
def _made_in(directory: Path) -> Iterator[set[str]]:
    """What is made in `directory` during the block."""
    queue, made = Inotify(), set[str]()
    try:
        queue.watch(str(directory), IN_CREATE)
        yield made
        made.update(event.name for event in queue.events())
    finally:
        queue.close()


def _running_pod(cluster: Cluster, namespace: str, node: str) -> PodName:
    """A pod on `node` that has mounted the cache ``kernels`` by its claim."""
    pod = sleeper(namespace, "user", claim("kernels"))
    pod["spec"]["nodeName"] = node
    apply(cluster, pod)
    eventually(lambda: is_running(cluster, namespace, "user"), "a pod runs", 180)
    uid = cluster.kubectl("-n", namespace, "get", "pod", "user", "-o", "jsonpath={.metadata.uid}")
    return PodName(uid=uid, namespace=namespace, name="user")


def _left(cluster: Cluster, node: str, before: Held) -> list[str]:
    """What `node` holds now, and not `before`."""
    now = held(cluster, node)
    return [
        *(f"a mount at {target}" for target in now.targets.keys() - before.targets.keys()),
        *(f"a private mount: {name}" for name in now.private - before.private),
        *(f"a directory: {name}" for name in now.places - before.places),
        *(f"a loop device: {name}" for name in now.loops - before.loops),
        *(f"a view: {name}" for name in now.journals.keys() - before.journals.keys()),
        *(f"unfinished: {name}" for name in now.unfinished),
    ]
