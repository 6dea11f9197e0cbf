"""The steps of an agent's work by the traces that they leave on its node, and an agent killed in one of them.

An agent is watched in slow motion: it runs for an instant, is stopped, and its node is looked at. Where the traces
are those of the wanted step it is killed, and they are looked at once more before another agent can begin: so a
kill that fell beside its step is known, and does not count.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from devcluster import processes
from gkm.store.layers import layer_directory
from support.devcluster import Cluster

_INSTANT = 0.0001
"""Seconds for which it runs."""
_SECONDS = 120.0
"""Until it has begun."""


@dataclass(frozen=True)
class Traces:
    """What one digest, and one pod's mount of it, have left on a node."""

    node: "Watched"
    digest: str
    volume: str
    """The pod's word for it, or its PersistentVolume's name; no other pod's."""
    root: str
    """Where the pod sees it."""

    @property
    def tree(self) -> Path:
        """Where the sealed tree stands, if it does."""
        return self.node.store / "trees" / self.digest.replace(":", "-")

    @property
    def layer(self) -> Path:
        """Where the tree's layer for the pod's path is, if it is."""
        return layer_directory(self.tree, self.root)

    @property
    def _target(self) -> str:
        return f"/volumes/kubernetes.io~csi/{self.volume}/mount"

    def claims(self) -> list[Path]:
        """Directories in which something is made for the store; the agent stages nothing else meanwhile."""
        return list(_entries(self.node.store / "staging"))

    def views(self) -> Iterator[tuple[Path, dict[str, str]]]:
        """The directories of the pod's view, each with its journal; empty where that is not written yet."""
        for path in _entries(self.node.store / "mounts"):
            journal = {}
            with suppress(FileNotFoundError):
                journal = json.loads((path / "journal.json").read_text())
            if not journal or self._target in journal["target"]:
                yield path, journal

    def states(self) -> list[str]:
        """The state of each view of the pod, by its journal."""
        return [journal.get("state", "") for _, journal in self.views()]

    def mounted(self) -> bool:
        """Whether the pod's target is mounted."""
        return f"{self._target} " in self.node.mounts()

    def private(self) -> bool:
        """Whether the filesystem for what the pod adds is mounted."""
        mounts = self.node.mounts()
        return any(f"/{path.name}/fs " in mounts for path, _ in self.views())

    def gone(self) -> bool:
        """Whether nothing is left of the pod's mount."""
        return not self.mounted() and not self.states() and not self.trash()

    def trash(self) -> list[Path]:
        """What is being deleted."""
        return [path for path in _entries(self.node.store / "trash") if path.name != ".lock"]


@dataclass(frozen=True)
class Watched:
    """A node, seen from outside."""

    store: Path
    init: int
    """The process ID of its first process."""

    @classmethod
    def of(cls, cluster: Cluster, node: str) -> "Watched":
        """The node called `node`."""
        folder = cluster.layout.node(node)
        identity = processes.recorded(folder / "init.pid")
        assert identity is not None, f"{node} does not run"
        return cls(folder / "lib/gkm", identity.pid)

    @property
    def root(self) -> Path:
        """Its files, as this process reaches them."""
        return Path(f"/proc/{self.init}/root")

    def mounts(self) -> str:
        """Its mount table."""
        return Path(f"/proc/{self.init}/mountinfo").read_text()


Step = Callable[[Traces], bool]


def _claimed(at: Traces) -> bool:
    """The child is not stopped when the agent is: it may have begun, and has nothing yet."""
    return bool(at.claims()) and not _fetching(at) and not _childs_tree(at) and not at.tree.exists()


def _fetching(at: Traces) -> bool:
    return any(begun for path in at.claims() for begun in _entries(path / "store" / "staging"))


def _childs_tree(at: Traces) -> list[int]:
    """To whom a tree belongs that was sealed and not yet put in place."""
    owners = []
    for path in at.claims():
        with suppress(OSError):
            owners.append((path / "store" / "trees" / at.tree.name).stat().st_uid)
    return owners


STAGING: dict[str, Step] = {
    "a directory is claimed": _claimed,
    "the child is at work": _fetching,
    "the child has sealed its tree": lambda at: any(_childs_tree(at)),
    "the tree is taken over": lambda at: 0 in _childs_tree(at),
    "the tree is in its place": lambda at: at.tree.exists() and bool(at.claims()),
}
RELOCATING: dict[str, Step] = {
    "the child makes a layer": lambda at: bool(at.claims()) and not at.layer.exists(),
    "the layer is in its place": lambda at: bool(at.claims()) and at.layer.exists(),
}
PUBLISHING: dict[str, Step] = {
    "a view is claimed": lambda at: "" in at.states(),
    "the journal is written": lambda at: "live" in at.states() and not at.private(),
    "the private filesystem is mounted": lambda at: at.private() and not at.mounted(),
    "the view is mounted": lambda at: at.mounted(),
}
UNPUBLISHING: dict[str, Step] = {
    "the view is unmounted": lambda at: "live" in at.states() and not at.mounted(),
    "the view has ended": lambda at: "ended" in at.states() and at.private(),
    "the private filesystem is unmounted": lambda at: "ended" in at.states() and not at.private(),
    "the view is trash": lambda at: bool(at.trash()) and not at.states(),
}
STEPS = STAGING | RELOCATING | PUBLISHING | UNPUBLISHING


def hurry() -> None:
    """Have this process wake up before others where that is allowed: the agent shall not run for long."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)


def kill_in(step: str, agent: processes.Identity, at: Traces) -> bool:
    """Watch `agent` until it is in `step`, and kill it there; False where it was beyond it, then or in the end.

    Call it in a process of its own, which does nothing else meanwhile.
    """
    wanted, deadline = STEPS[step], time.monotonic() + _SECONDS
    over = Traces.gone if step in UNPUBLISHING else Traces.mounted
    with _signals(agent) as send:
        while True:
            send(signal.SIGSTOP)
            if wanted(at):
                processes.end([agent])
                return wanted(at)
            if over(at):
                return False
            assert time.monotonic() < deadline, f"the agent has nothing to do with: {step}"
            send(signal.SIGCONT)
            time.sleep(_INSTANT)


@contextmanager
def _signals(agent: processes.Identity) -> Iterator[Callable[[signal.Signals], None]]:
    """Signal it without a look at who it is, which takes longer than its steps; it goes on in the end.

    Raises `ProcessLookupError` where it is gone.
    """
    fd = os.pidfd_open(agent.pid)
    try:
        assert agent.alive()
        try:
            yield partial(signal.pidfd_send_signal, fd)
        finally:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGCONT)
    finally:
        os.close(fd)


def _entries(directory: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError, NotADirectoryError):
        yield from directory.iterdir()
