"""Which signals are handed on: each reaches the command once."""

import signal

import pytest

from gkm.store.linux.signals import SignalEvent
from gkm.store.session_signals import FORWARDED, from_starter, to_be_handed_on

STARTER, STRANGER = 100, 200


@pytest.mark.parametrize("number", sorted(FORWARDED))
def test_what_somebody_sends_to_gkm_is_handed_on(number: signal.Signals) -> None:
    assert to_be_handed_on(SignalEvent(number, STRANGER, from_kernel=False))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH])
def test_what_the_terminal_sends_to_all_is_not(number: signal.Signals) -> None:
    assert not to_be_handed_on(SignalEvent(number, 0, from_kernel=True))


def test_a_hang_up_is_handed_on_for_the_terminal_may_send_it_to_gkm_alone() -> None:
    assert to_be_handed_on(SignalEvent(signal.SIGHUP, 0, from_kernel=True))


@pytest.mark.parametrize("number", sorted(FORWARDED))
def test_the_supervising_process_hands_on_only_what_gkm_handed_to_it(number: signal.Signals) -> None:
    assert from_starter(SignalEvent(number, STARTER, from_kernel=False), STARTER)
    assert not from_starter(SignalEvent(number, STRANGER, from_kernel=False), STARTER)
    assert not from_starter(SignalEvent(number, 0, from_kernel=True), STARTER)


def test_job_control_and_children_are_left_to_the_kernel() -> None:
    untouched = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCONT, signal.SIGCHLD}
    assert FORWARDED.isdisjoint(untouched)
