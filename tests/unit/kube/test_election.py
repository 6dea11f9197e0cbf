"""At no moment may two candidates act as the leader: whatever is delayed, lost, paused, or seen late."""

from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gkm.base.errors import UsageError
from gkm.kube.election import Election, LeaseTiming, Move
from gkm.kube.objects import Lease, LeaseSpec, ObjectMeta

NAMES = st.sampled_from(["one", "two", "three"])


@dataclass
class Server:
    """One Lease, changed only by writes that name its version."""

    lease: Lease | None = None
    version: int = 0

    def write(self, based_on: str, holder: str) -> Lease | None:
        if (self.lease.metadata.resource_version if self.lease else "") != based_on:
            return None
        self.version += 1
        metadata = ObjectMeta(name="lease", namespace="ns", resource_version=str(self.version))
        self.lease = Lease(
            metadata=metadata, spec=LeaseSpec(holder_identity=holder, lease_duration_seconds=8)
        )
        return self.lease


@dataclass
class Write:
    """On its way to the server, or (`arrived`) its answer on the way back."""

    based_on: str
    sent: float
    arrived: bool = False
    answer: Lease | None = None


@dataclass
class Candidate:
    name: str
    clock_starts_at: float
    election: Election = field(init=False)
    write: Write | None = None
    lives: int = 0

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.lives += 1
        self.write = None
        self.election = Election(f"{self.name}-{self.lives}")


class ElectionMachine(RuleBasedStateMachine):
    """Candidates whose clocks run alike but show different times; a pause is time that passes."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0
        self.server = Server()
        self.candidates = {
            name: Candidate(name, start) for name, start in (("one", 0.0), ("two", 1e6), ("three", 5.5))
        }

    def now(self, candidate: Candidate) -> float:
        return candidate.clock_starts_at + self.time

    @rule(quarters=st.integers(1, 40))
    def time_passes(self, quarters: int) -> None:
        self.time += quarters / 4

    @rule(name=NAMES)
    def hears_of_the_lease(self, name: str) -> None:
        candidate = self.candidates[name]
        if not candidate.election.leading:
            candidate.election.saw(self.server.lease, self.now(candidate))

    @rule(name=NAMES)
    def acts(self, name: str) -> None:
        candidate = self.candidates[name]
        election, now = candidate.election, self.now(candidate)
        if candidate.write is not None:
            return
        move = election.move(now)
        if move is Move.STEP_DOWN:
            candidate.restart()
        elif move is Move.TAKE:
            election.saw(self.server.lease, now)
            if election.move(now) is Move.TAKE:
                version = election.lease.metadata.resource_version if election.lease else ""
                candidate.write = Write(version, now)
        elif move is Move.RENEW:
            assert election.lease is not None
            candidate.write = Write(election.lease.metadata.resource_version, now)

    @rule(name=NAMES)
    def write_arrives(self, name: str) -> None:
        candidate = self.candidates[name]
        if candidate.write is not None and not candidate.write.arrived:
            candidate.write.arrived = True
            candidate.write.answer = self.server.write(candidate.write.based_on, candidate.election.identity)

    @precondition(lambda self: any(c.write and c.write.arrived for c in self.candidates.values()))
    @rule(name=NAMES, lost=st.booleans())
    def answer_arrives(self, name: str, lost: bool) -> None:
        candidate = self.candidates[name]
        write = candidate.write
        if write is None or not write.arrived:
            return
        candidate.write = None
        if write.answer is not None and not lost:
            candidate.election.wrote(write.answer, write.sent, self.now(candidate))
        elif not lost:
            # Refused: the elector reads the Lease.
            candidate.election.saw(self.server.lease, self.now(candidate))

    @invariant()
    def one_leader_at_most(self) -> None:
        acting = [c.name for c in self.candidates.values() if self.now(c) < c.election.until]
        assert len(acting) <= 1, acting


TestElection = ElectionMachine.TestCase
TestElection.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)


def drive(election: Election, server: Server, start: float, seconds: float) -> float | None:
    """Step a candidate that nothing disturbs; when it could first act as the leader."""
    now = start
    while now <= start + seconds:
        election.saw(server.lease, now)
        move = election.move(now)
        if move in (Move.TAKE, Move.RENEW):
            version = election.lease.metadata.resource_version if election.lease else ""
            answer = server.write(version, election.identity)
            assert answer is not None
            election.wrote(answer, now, now)
            if move is Move.TAKE:
                return now
        now += max(0.01, min(election.wait(now), 1.0))
    return None


def test_a_free_lease_is_taken_at_once() -> None:
    server = Server()
    assert drive(Election("a"), server, 0.0, 1.0) == 0.0


def test_a_dead_leaders_lease_is_taken_when_it_ran_out_and_no_sooner() -> None:
    server = Server()
    drive(Election("a"), server, 0.0, 1.0)
    taken = drive(Election("b"), server, 3.0, 60.0)
    assert taken is not None
    assert 3.0 + 8.0 <= taken <= 3.0 + 8.0 + 1.0


def test_a_released_lease_is_taken_at_once() -> None:
    server = Server()
    drive(Election("a"), server, 0.0, 1.0)
    assert server.lease is not None
    server.write(server.lease.metadata.resource_version, "")
    assert drive(Election("b"), server, 2.0, 1.0) == 2.0


def test_the_holders_own_duration_counts() -> None:
    election = Election("b", LeaseTiming(lease=8))
    spec = LeaseSpec(holder_identity="a", lease_duration_seconds=60)
    election.saw(Lease(metadata=ObjectMeta(resource_version="1"), spec=spec), 0.0)
    assert election.move(59.0) is Move.WAIT
    assert election.move(60.0) is Move.TAKE


def test_a_deleted_lease_does_not_end_its_holders_time() -> None:
    election = Election("b")
    spec = LeaseSpec(holder_identity="a", lease_duration_seconds=8)
    election.saw(Lease(metadata=ObjectMeta(resource_version="1"), spec=spec), 0.0)
    election.saw(None, 1.0)
    assert election.move(8.9) is Move.WAIT
    assert election.move(9.0) is Move.TAKE


def test_a_leader_renews_often_enough_to_lose_a_request_and_stops_before_others_start() -> None:
    server, election = Server(), Election("a")
    drive(election, server, 0.0, 1.0)
    assert [election.move(float(second)) for second in range(6)] == [
        Move.WAIT,
        Move.WAIT,
        Move.RENEW,
        Move.RENEW,
        Move.RENEW,
        Move.STEP_DOWN,
    ]
    assert not election.leading


def test_a_late_answer_does_not_prolong_the_leadership() -> None:
    election = Election("a")
    spec = LeaseSpec(holder_identity="a", lease_duration_seconds=8)
    election.wrote(Lease(metadata=ObjectMeta(resource_version="1"), spec=spec), sent=100.0, now=104.0)
    assert election.until == 105.0


def test_a_leader_whose_lease_names_another_steps_down() -> None:
    server, election = Server(), Election("a")
    drive(election, server, 0.0, 1.0)
    assert server.lease is not None
    other = msgspec.structs.replace(
        server.lease,
        metadata=ObjectMeta(resource_version="99"),
        spec=LeaseSpec(holder_identity="b", lease_duration_seconds=8),
    )
    election.saw(other, 1.0)
    assert election.move(1.0) is Move.STEP_DOWN


@pytest.mark.parametrize("timing", [(5, 8, 1), (8, 8, 1), (8, 2, 1), (8, 5, 0)])
def test_timings_that_could_not_work_are_refused(timing: tuple[float, float, float]) -> None:
    with pytest.raises(UsageError, match="lease > renew"):
        LeaseTiming(*timing)
