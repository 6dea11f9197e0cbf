"""Modes are found by trying, with one thread or many; leftovers of the try are gone."""

import threading

from gkm.store.mode import Mode
from gkm.store.modes import probe_modes
from gkm.store.store import Store


def test_a_process_with_threads_gets_the_same_answer(store: Store) -> None:
    with store.scratch() as first:
        alone = probe_modes(first)
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    try:
        with store.scratch() as second:
            assert probe_modes(second) == alone
    finally:
        stop.set()
        other.join()


def test_the_answer_is_kept_and_names_what_was_refused(store: Store) -> None:
    probe = store.probe_modes()
    assert store.probe_modes() is probe
    better = list(Mode)[: list(Mode).index(probe.mode)]
    assert [refusal.split(":")[0] for refusal in probe.refusals] == better
