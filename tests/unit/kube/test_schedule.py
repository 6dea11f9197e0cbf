"""No key is lost, none is in two hands, and none waits longer than it was asked to."""

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from gkm.kube.schedule import Schedule

KEYS = st.sampled_from("abcdef")


class ScheduleMachine(RuleBasedStateMachine):
    """Against a model that just remembers what is owed."""

    keys = Bundle("keys")

    def __init__(self) -> None:
        super().__init__()
        self.schedule: Schedule[str] = Schedule()
        self.now = 0.0
        self.owed: set[str] = set()
        self.later: dict[str, float] = {}
        self.working: set[str] = set()

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        assert self.schedule.add(key) == (key not in self.owed)
        self.owed.add(key)

    @rule(key=KEYS, seconds=st.integers(0, 5))
    def add_later(self, key: str, seconds: int) -> None:
        self.schedule.add_at(key, self.now + seconds)
        self.later[key] = min(self.later.get(key, float("inf")), self.now + seconds)

    @rule(seconds=st.integers(0, 3))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        due = {key for key, moment in self.later.items() if moment <= self.now}
        assert set(self.schedule.wake(self.now)) == due - self.owed
        self.owed |= due
        for key in due:
            del self.later[key]

    @rule()
    def take(self) -> None:
        key = self.schedule.take()
        if key is None:
            assert not self.owed - self.working, "a key was ready and not handed out"
        else:
            assert key not in self.working, "in two hands"
            assert key in self.owed, "handed out for nothing"
            self.owed.discard(key)
            self.working.add(key)

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.working.discard(key)
        assert self.schedule.done(key) == (key in self.owed)

    @invariant()
    def counts(self) -> None:
        assert len(self.schedule) == len(self.owed - self.working)
        assert self.schedule.delayed == len(self.later)
        assert self.schedule.next_moment() == min(self.later.values(), default=None)


TestSchedule = ScheduleMachine.TestCase


def test_keys_come_in_the_order_they_were_added() -> None:
    schedule: Schedule[int] = Schedule()
    for key in (3, 1, 2, 1):
        schedule.add(key)
    assert [schedule.take() for _ in range(4)] == [3, 1, 2, None]
