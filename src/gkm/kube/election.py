"""Leader election by a Lease, as decisions: pure, time is handed in, nothing is sent.

One Lease object names the leader and is renewed by it. Clocks of machines are never compared: a candidate
counts from the moment at which *it* saw the Lease change, on its own clock, and takes over when nothing
changed for the lease's duration. The leader counts from the moment *before* it sent its last successful
renewal, and stops `margin` earlier than any candidate can begin. Two clocks that run at the same speed are
all that is needed, and the margin covers requests that are under way.

Every write carries the resourceVersion it was decided upon, so of two candidates one wins.
"""

from dataclasses import dataclass, field
from enum import Enum

from gkm.base.errors import UsageError
from gkm.kube.objects import Lease


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """Seconds, in client-go's words.

    `lease`: how long a silent leader is waited for. `renew`: how long after its last successful renewal a
    leader may act. `retry`: between two tries. A renewal is due every two `retry`, so several may fail.

    Raises:
        UsageError: not ``lease > renew > 2 * retry > 0``; with less, a leader would not survive one lost
            request.
    """

    lease: float = 8.0
    renew: float = 5.0
    retry: float = 1.0

    def __post_init__(self) -> None:
        if not self.lease > self.renew > 2 * self.retry > 0:
            raise UsageError(f"lease timing must have lease > renew > 2 * retry > 0, not {self}")


class Move(Enum):
    """What to do now."""

    WAIT = "nothing"
    TAKE = "create the Lease, or write our name into it"
    RENEW = "renew it"
    STEP_DOWN = "stop acting: the leadership is over"


@dataclass(slots=True)
class Election:
    """One candidate, from its own point of view. All moments are seconds on one clock that stands for no
    pause.

    Feed it what is seen (`saw`) and what came of its writes (`wrote`); ask `move` what to do, and `until` how
    long it may act as the leader.
    """

    identity: str
    timing: LeaseTiming = field(default_factory=LeaseTiming)
    lease: Lease | None = None
    """The newest state of the Lease that was seen."""
    until: float = float("-inf")
    """The moment up to which this candidate may act as the leader."""
    _free_from: float = float("-inf")
    _renewed_at: float = float("-inf")
    _led: bool = False

    def saw(self, lease: Lease | None, now: float) -> None:
        """The Lease looks like this (None: there is none)."""
        known = self.lease.metadata.resource_version if self.lease else ""
        if lease is not None and lease.metadata.resource_version == known:
            return
        # A Lease that was deleted does not end its holder's leadership: that one may not know yet.
        holder = lease or self.lease
        self._free_from = now + self._hold(holder) if holder else float("-inf")
        self.lease = lease

    def wrote(self, lease: Lease, sent: float, now: float) -> None:
        """Our write, sent at `sent`, was accepted and made the Lease look like this."""
        self.saw(lease, now)
        self._led = True
        self._renewed_at = sent
        self.until = sent + self.timing.renew

    @property
    def ours(self) -> bool:
        """Whether the Lease, as last seen, names us."""
        return self.lease is not None and self.lease.spec.holder_identity == self.identity

    @property
    def leading(self) -> bool:
        """Whether we took the Lease, and have not been told to step down since."""
        return self._led

    def move(self, now: float) -> Move:
        """What to do at `now`."""
        if self._led:
            if now >= self.until or not self.ours:
                self._led = False
                self.until = float("-inf")
                return Move.STEP_DOWN
            return Move.RENEW if now >= self._renewed_at + 2 * self.timing.retry else Move.WAIT
        return Move.TAKE if now >= self._free_from else Move.WAIT

    def wait(self, now: float) -> float:
        """Seconds until `move` may say something else, if nothing is seen before."""
        if self._led:
            return max(0.0, min(self.until, self._renewed_at + 2 * self.timing.retry) - now)
        return max(0.0, self._free_from - now)

    def _hold(self, lease: Lease) -> float:
        """How long after its last change `lease` may not be taken."""
        if not lease.spec.holder_identity or lease.spec.holder_identity == self.identity:
            return float("-inf")
        # The holder's own duration counts: another release of this program may use another.
        return lease.spec.lease_duration_seconds or self.timing.lease
