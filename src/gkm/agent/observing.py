"""``python -m gkm.agent.observing PARENT``: watches which files of the node's views are opened, for the agent.

A process of its own: an open costs it microseconds of Python, and thousands come in the moment a workload starts.
It needs CAP_SYS_ADMIN for fanotify, reads nothing that a pod wrote, and ends with the agent. Orders come as lines
of JSON on stdin, sightings go as lines to stdout.
"""

import os
import select
import signal
import sys
import threading
import time
from pathlib import Path
from typing import BinaryIO

import msgspec

from gkm.agent.sightings import Finish, Order, Sighting, Watch, encode
from gkm.store.linux.syscalls import die_with_parent
from gkm.store.observation import Observation
from gkm.store.observation import Watch as FileWatch
from gkm.store.observe import watch

_READ = 1 << 16
_TELL_SECONDS = 0.5
"""Between two tellings of what was opened: a workload's thousand opens are one sighting."""


class Observer:
    """The watches under way, and what is still to be told."""

    def __init__(self, output: BinaryIO) -> None:
        self._output = output
        self._watches: dict[int, FileWatch] = {}
        self._trees: dict[str, frozenset[str]] = {}
        """The wanted files of each tree of which a view is watched: thousands of names, held once."""
        self._tree: dict[int, str] = {}
        self._told: dict[int, frozenset[str]] = {}
        self._changed: set[int] = set()
        self._poll = select.poll()
        self._by_fd: dict[int, int] = {}

    def serve(self, orders: int) -> None:
        """Obey until there is nobody left to give orders."""
        self._poll.register(orders, select.POLLIN)
        pending = b""
        decoder = msgspec.json.Decoder(Order)
        due = float("inf")
        while True:
            left = None if due == float("inf") else max(0, int((due - time.monotonic()) * 1000) + 1)
            ready = [fd for fd, _ in self._poll.poll(left)]
            if time.monotonic() >= due:
                for number in sorted(self._changed):
                    self._tell(number, self._watches[number].so_far())
                self._changed.clear()
                due = float("inf")
            for fd in ready:
                if fd == orders:
                    data = os.read(orders, _READ)
                    if not data:
                        return
                    *lines, pending = (pending + data).split(b"\n")
                    for text in lines:
                        self._obey(decoder.decode(text))
                elif fd in self._by_fd:
                    number = self._by_fd[fd]
                    self._watches[number].drain()
                    self._changed.add(number)
            if self._changed:
                due = min(due, time.monotonic() + _TELL_SECONDS)

    def _obey(self, order: Watch | Finish) -> None:
        if isinstance(order, Finish):
            self._finish(order.id)
            return
        if order.wanted is not None:
            self._trees[order.tree] = frozenset(order.wanted)
        made = watch(Path(order.view), self._trees[order.tree], mounted=order.mounted)
        self._watches[order.id] = made
        self._tree[order.id] = order.tree
        self._told[order.id] = frozenset()
        if made.fileno() >= 0:
            self._by_fd[made.fileno()] = order.id
            self._poll.register(made.fileno(), select.POLLIN)
        self._tell(order.id, made.so_far())

    def _finish(self, number: int) -> None:
        made = self._watches.pop(number, None)
        if made is None:
            self._write(Sighting(number, "none", (), last=True))
            return
        if made.fileno() >= 0:
            self._poll.unregister(made.fileno())
            del self._by_fd[made.fileno()]
        self._changed.discard(number)
        self._tell(number, made.let_go(), last=True)
        # Kubelet waits for the answer, and the next pod for this thread.
        threading.Thread(target=made.close).start()
        tree = self._tree.pop(number)
        if tree not in self._tree.values():
            del self._trees[tree]
        del self._told[number]

    def _tell(self, number: int, seen: Observation, *, last: bool = False) -> None:
        """Tell what is new of the wanted files. What a pod opened beside them is nobody's business."""
        opened = seen.opened & self._trees[self._tree[number]]
        fresh = opened - self._told[number]
        self._told[number] = opened
        self._write(Sighting(number, seen.kind, tuple(sorted(fresh)), last=last))

    def _write(self, sighting: Sighting) -> None:
        self._output.write(encode(sighting))
        self._output.flush()


def main() -> None:
    """Serve the agent whose process ID is the one argument."""
    parent = int(sys.argv[1])
    die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        return  # it died before we asked to be told
    Observer(sys.stdout.buffer).serve(sys.stdin.fileno())


if __name__ == "__main__":
    main()
