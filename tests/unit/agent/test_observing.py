"""The observing process: its answers do not wait for what nobody needs."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from gkm.agent.observing import Observer
from gkm.agent.sightings import Finish, Order, Sighting, Watch, encode
from gkm.store.observe import NoWatch


class SlowToClose(NoWatch):
    """A watch that the kernel takes back only when `allowed`."""

    allowed = threading.Event()
    closed = threading.Event()

    def close(self) -> None:
        assert self.allowed.wait(60)
        self.closed.set()


class Conversation:
    """Orders given to an observer, and its sightings."""

    def __init__(self, orders: int, sightings: int) -> None:
        self._orders = orders
        self._sightings = os.fdopen(sightings, "rb")

    def ask(self, order: Order) -> Sighting:
        os.write(self._orders, encode(order))
        return msgspec.json.decode(self._sightings.readline(), type=Sighting)

    def hang_up(self) -> None:
        os.close(self._orders)
        self._sightings.close()


@contextmanager
def observer() -> Iterator[Conversation]:
    orders, ordering = os.pipe()
    telling, told = os.pipe()
    with os.fdopen(told, "wb") as output:
        serving = threading.Thread(target=Observer(output).serve, args=(orders,), daemon=True)
        serving.start()
        conversation = Conversation(ordering, telling)
        try:
            yield conversation
        finally:
            conversation.hang_up()
            serving.join(60)
            os.close(orders)
            assert not serving.is_alive()


def test_neither_the_last_sighting_nor_the_next_view_waits_for_the_kernel_to_take_a_watch_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def watching(view: Path, wanted: frozenset[str], *, mounted: bool) -> NoWatch:
        return SlowToClose(f"{view} {sorted(wanted)} {mounted}")

    monkeypatch.setattr("gkm.agent.observing.watch", watching)
    # Wherever an answer waited for it, the watch is taken back at last, and the test says so.
    giving_up = threading.Timer(20, SlowToClose.allowed.set)
    giving_up.start()
    try:
        with observer() as conversation:
            conversation.ask(Watch(1, "/a", "tree", ("file",), mounted=True))
            assert conversation.ask(Finish(1)) == Sighting(1, "none", (), last=True)
            assert conversation.ask(Watch(2, "/b", "tree", ("file",), mounted=True)) == Sighting(
                2, "none", ()
            )
            assert not SlowToClose.closed.is_set()
            SlowToClose.allowed.set()
            assert SlowToClose.closed.wait(60)
    finally:
        giving_up.cancel()
        SlowToClose.allowed.set()


def test_a_view_that_was_never_watched_is_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gkm.agent.observing.watch", lambda *_, **__: NoWatch("no"))
    with observer() as conversation:
        assert conversation.ask(Finish(7)) == Sighting(7, "none", (), last=True)
        conversation.ask(Watch(8, "/a", "tree", ("file",), mounted=True))
        # The names are those told with the first view of the tree.
        assert conversation.ask(Watch(9, "/b", "tree", None, mounted=True)) == Sighting(9, "none", ())
