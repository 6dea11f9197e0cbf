"""A node's directories, and the driver running on them in this process."""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from gkm.api.names import CSI_DRIVER
from gkm.csi.driver import Driver
from gkm.csi.ports import PodName
from gkm.csi.settings import Settings
from gkm.kubelet.registration import registration_socket
from gkm.store.linux import mountinfo, syscalls
from gkm.store.store import Store
from support import csi


@dataclass
class Node:
    """One node: its kubelet's root, its store, and what the driver's neighbours say."""

    root: Path
    settings: Settings
    store: Store
    caches: csi.Caches = field(default_factory=csi.Caches)
    pods: csi.Pods = field(default_factory=csi.Pods)
    events: csi.Events = field(default_factory=csi.Events)
    usage: csi.Usage = field(default_factory=csi.Usage)
    trees: csi.Trees = field(init=False)

    def __post_init__(self) -> None:
        self.trees = csi.Trees(self.store)

    def target(self, pod: PodName, volume: str = "cache") -> Path:
        return csi.target(self.settings.kubelet_root, pod.uid, volume)

    def pod(self, uid: str, path: str = "/cache", **facts: bool) -> PodName:
        """A pod that mounts the volume ``cache`` at `path`."""
        name = PodName("team", f"pod-{uid}", uid)
        self.pods.known[uid] = csi.pod_facts([csi.mount("cache", path)], **facts)
        return name

    def driver(self) -> Driver:
        return Driver(
            self.settings,
            self.store,
            caches=self.caches,
            trees=self.trees,
            pods=self.pods,
            events=self.events,
            usage=self.usage,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[csi.Kubelet]:
        """An agent's life."""
        driver = self.driver()
        running = asyncio.ensure_future(driver.run())
        last = registration_socket(self.settings.kubelet_root, CSI_DRIVER)
        try:
            async with csi.dialled(self.settings.socket) as kubelet:
                while not last.exists():
                    await asyncio.sleep(0.01)
                    if running.done():
                        running.result()
                yield kubelet
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running

    def mounts(self) -> list[str]:
        """Everything mounted below the node's directories."""
        return [e.target for e in mountinfo.mounts() if Path(e.target).is_relative_to(self.root)]

    def leftovers(self) -> list[Path]:
        """Views and uppers that are there, whoever needs them."""
        layout = self.store.layout
        found = [*layout.mounts.iterdir(), *layout.staging.iterdir()]
        found += [p for p in layout.trash.iterdir() if p.name != ".lock"]
        return found + (list(self.settings.place.iterdir()) if self.settings.place.is_dir() else [])


@contextmanager
def node(base: str = "/tmp", **changes: object) -> Iterator[Node]:
    """A fresh node below `base`. Whatever a test leaves mounted goes with it."""
    # Any uid may pass, as on a real node; and short, for a socket's path may have 107 bytes.
    root = Path(tempfile.mkdtemp(prefix="gkm-csi-", dir=base))
    root.chmod(0o755)
    try:
        settings = replace(Settings(node_name="node", kubelet_root=root / "kubelet"), **changes)  # type: ignore[arg-type]
        yield Node(root, settings, Store.open(root / "store"))
    finally:
        for entry in reversed(mountinfo.mounts()):
            if Path(entry.target).is_relative_to(root):
                syscalls.umount(entry.target, syscalls.MNT_DETACH)
        shutil.rmtree(root, ignore_errors=True)
