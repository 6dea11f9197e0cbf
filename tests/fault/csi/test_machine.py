"""The mount machine against real mounts: agents killed at every step, restarted, and machines booted again.

Each action is one agent's life in a forked child. What a pod wrote shows whether its mount survived, and
whether an upper was ever used twice.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gkm.csi.machine import Machine
from gkm.csi.views import Views
from gkm.store.bounded import Bounds
from gkm.store.host import Wish
from gkm.store.linux import mountinfo, syscalls
from gkm.store.mode import Mode
from gkm.store.store import Store
from support.csi import Usage
from support.csi_node import Node
from support.csi_node import node as fresh_node
from support.kills import run_killed_at
from support.views import everything, seal_files, triton_files

pytestmark = pytest.mark.root

PODS = ("1", "2")
FILES = triton_files("add")
ENTRY = "ADD" + "A" * 49
GROUP = f"{ENTRY}/__grp__add.json"
MEMORY = "/dev/shm"  # hundreds of lives, each with its fsyncs


@dataclass
class World:
    """A node, and what its pods may rely on."""

    node: Node
    digest: str
    written: dict[str, str] = field(default_factory=dict)
    """By pod: what it wrote in the mount that it runs with."""
    count: int = 0

    def target(self, pod: str) -> Path:
        path = (
            self.node.settings.kubelet_root
            / "pods"
            / pod
            / "volumes"
            / "kubernetes.io~csi"
            / "cache"
            / "mount"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def agent(self, call: Callable[[Machine], Coroutine[Any, Any, None]], kill: int = 0) -> bool:
        """An agent's life with one call in it, killed at its step `kill`; whether it came to its end."""

        async def life() -> None:
            views = Views(Store.open(self.node.store.root), self.node.settings.place)
            machine = Machine(views, Usage(), busy_seconds=600)
            await machine.restore()
            await call(machine)
            await machine.drain()

        return run_killed_at(kill, lambda: asyncio.run(life()))

    def publish(self, pod: str, mode: Mode, *, warm: bool, kill: int = 0) -> bool:
        target = self.target(pod)
        digest = self.digest if warm else None

        def wish() -> Wish:
            tree = None if digest is None else self.node.store.tree(digest)
            place = self.node.settings.place
            layer = None if tree is None else self.node.store.relocated(tree, f"/seen/by/{pod}")
            return Wish(tree, target, place, mode, Bounds(1 << 20, 64), layer)

        async def call(machine: Machine) -> None:
            place = machine.place(target)
            await machine.publish(place, place.unpublished, wish)

        done = self.agent(call, kill)
        self.check()
        if done:
            assert target.is_mount()
        if target.is_mount() and pod not in self.written:
            # Nothing of an earlier mount is here: no upper is used twice.
            found = everything(target)
            assert set(found) in (set(FILES), set())
            assert not found or f'"/seen/by/{pod}/{ENTRY}/'.encode() in found[GROUP]
            self.count += 1
            self.written[pod] = f"by-{self.count}"
            (target / "written").write_text(self.written[pod])
        return done

    def unpublish(self, pod: str, kill: int = 0) -> bool:
        target = self.target(pod)

        async def call(machine: Machine) -> None:
            await machine.unpublish(machine.place(target))

        done = self.agent(call, kill)
        if done:
            assert not target.exists()
        if not target.is_mount():
            self.written.pop(pod, None)
        self.check()
        return done

    def restart(self, kill: int = 0) -> None:
        async def call(_: Machine) -> None:
            pass

        self.agent(call, kill)
        self.check()

    def collect(self, kill: int = 0) -> None:
        """Garbage is collected: of what no pod uses nothing stays but the tree."""

        def work() -> None:
            Store.open(self.node.store.root).collect(keep={self.digest}, layers_unused_seconds=-1)

        run_killed_at(kill, work)
        self.check()

    def reboot(self) -> None:
        """No mount is left, and the journals are of another boot."""
        for entry in reversed(mountinfo.mounts()):
            if Path(entry.target).is_relative_to(self.node.root):
                syscalls.umount(entry.target, syscalls.MNT_DETACH)
        for path in self.node.store.layout.mounts.glob("*/journal.json"):
            journal = json.loads(path.read_bytes())
            path.write_text(json.dumps(journal | {"bootId": "another"}))
        self.written.clear()

    def check(self) -> None:
        """Whatever was killed: running pods have what they wrote, the sealed tree is as it was."""
        for pod, text in self.written.items():
            assert (self.target(pod) / "written").read_text() == text
            # What was rewritten for it is still below.
            group = self.target(pod) / GROUP
            assert not group.parent.exists() or f'"/seen/by/{pod}/'.encode() in group.read_bytes()
        tree = self.node.store.tree(self.digest)
        assert tree is not None
        assert everything(tree.path) == FILES

    def converge(self) -> None:
        """Kubelet ends every pod: an agent that lives leaves nothing."""
        for pod in PODS:
            self.unpublish(pod)
        self.restart()
        assert self.node.mounts() == []
        assert self.node.leftovers() == []
        assert self.node.store.collect().removed == (self.digest,)


kills = st.integers(0, 120)
actions = st.one_of(
    st.tuples(
        st.just("publish"),
        st.sampled_from(PODS),
        st.sampled_from([Mode.OVERLAY, Mode.COPY]),
        st.booleans(),
        kills,
    ),
    st.tuples(st.just("unpublish"), st.sampled_from(PODS), kills),
    st.tuples(st.just("restart"), kills),
    st.tuples(st.just("collect"), kills),
    st.tuples(st.just("reboot")),
)


@settings(max_examples=10)
@given(st.lists(actions, min_size=2, max_size=10))
@example([("publish", "1", Mode.OVERLAY, True, 0), ("reboot",), ("publish", "1", Mode.OVERLAY, True, 0)])
@example([("publish", "1", Mode.OVERLAY, True, 0), ("collect", 0), ("publish", "2", Mode.OVERLAY, True, 0)])
@example([("publish", "1", Mode.COPY, True, 0), ("restart", 0), ("publish", "1", Mode.COPY, True, 0)])
def test_any_history_converges(history: list[tuple[Any, ...]]) -> None:
    with fresh_node(MEMORY) as node:
        world = World(node, seal_files(node.store, FILES).digest)
        for name, *arguments in history:
            match name:
                case "publish":
                    pod, mode, warm, kill = arguments
                    world.publish(pod, mode, warm=warm, kill=kill)
                case "unpublish":
                    world.unpublish(*arguments)
                case "restart":
                    world.restart(*arguments)
                case "collect":
                    world.collect(*arguments)
                case _:
                    world.reboot()
        world.converge()


@pytest.mark.parametrize(("mode", "stride"), [(Mode.OVERLAY, 1), (Mode.COPY, 3)])
@pytest.mark.parametrize("call", ["publish", "unpublish"])
def test_killed_at_every_step(mode: Mode, stride: int, call: str) -> None:
    """Of a copy every third: most of its steps are those of an overlay."""
    with fresh_node(MEMORY) as node:
        world = World(node, seal_files(node.store, FILES).digest)
        step, done = 1 - stride, False
        while not done:
            step += stride
            done = world.publish("1", mode, warm=True, kill=step if call == "publish" else 0)
            if call == "unpublish":
                done = world.unpublish("1", kill=step)
            # The next agent takes over, whatever was half-done.
            assert world.unpublish("1")
            assert node.mounts() == [], step
            assert node.leftovers() == [], step
        assert step > 30, "the steps were not counted"
