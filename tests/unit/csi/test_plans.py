"""The mount machine's decisions, limits and waits, without mounts and without time."""

from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gkm.api.values import CacheKind
from gkm.csi.errors import NotYetError
from gkm.csi.limits import bounds_for
from gkm.csi.plan import Found, plan_publish, plan_start, plan_unpublish
from gkm.csi.ports import CacheName, PodName
from gkm.csi.settings import Settings
from gkm.csi.settle import Settler
from gkm.csi.waits import Waits
from gkm.store.host import HostedView
from gkm.store.journal import Journal, Owner
from gkm.store.mode import Mode
from support.csi import Answer, Caches

State = Literal["live", "ended", "detached"]
CACHE = CacheName(CacheKind.GKM_CACHE, "team", "kernels")
POD = PodName("team", "pod", "1")
MIB = 1 << 20


def view(name: str, state: State = "live", boot: str = "this") -> HostedView:
    journal = Journal(
        version=1,
        mode=Mode.OVERLAY,
        target=f"/target/{name}",
        digest=None,
        made_directories=(),
        persistent=True,
        owner=Owner(1, 1),
        boot_id=boot,
        private="/place/x/fs",
        state=state,
    )
    return HostedView(Path("/store/mounts", name), journal)


views = st.builds(
    view,
    st.sampled_from("abc"),
    st.sampled_from(["live", "ended", "detached"]),
    st.sampled_from(["this", "earlier"]),
)


def test_what_is_mounted_is_published_whatever_the_journals_say() -> None:
    for found in (Found(True, ()), Found(True, (view("a"),)), Found(True, (view("a", "ended"),))):
        assert plan_publish(found) == ((), False)


def test_a_leftover_is_ended_and_never_used_again() -> None:
    leftover = view("a")
    assert plan_publish(Found(False, (leftover, view("a", "detached")))) == ((leftover,), True)


def test_unpublishing_nothing_is_no_error() -> None:
    assert plan_unpublish(Found(False, ())) == (False, ())
    assert plan_unpublish(Found(True, ())) == (True, ())


@given(st.lists(views), st.frozensets(st.sampled_from(["/target/a", "/target/b", "/elsewhere"])))
def test_a_starting_agent_forgets_no_view_and_drops_none_in_use(
    found: list[HostedView], mounted: frozenset[str]
) -> None:
    plan = plan_start(found, mounted, "this")
    for one in found:
        journal = one.journal
        assert (one in plan.restored) == (
            journal.state == "live" and journal.boot_id == "this" and journal.target in mounted
        )
        kept = journal.state == "detached" and journal.boot_id == "this"
        assert (one in plan.restored) + (one in plan.end) + (one in plan.drop) == (0 if kept else 1)


@given(st.integers(1, 1 << 40), st.lists(st.integers(0, 1 << 36)), st.integers(0, 1 << 42))
def test_limits_stay_within_the_budget_but_for_a_small_floor(
    wanted: int, others: list[int], budget: int
) -> None:
    bounds = bounds_for(wanted, others, budget)
    assert 0 < bounds.bytes <= wanted
    assert bounds.bytes <= max(budget - sum(others), 16 * MIB)
    assert bounds.files >= 4096


def test_a_wait_is_shared_remembered_and_at_last_forgotten() -> None:
    now = 0.0
    waits = Waits(lambda: now, idle=100)
    assert waits.waited(CACHE, "one") == 0
    now = 20
    assert waits.waited(CACHE, "one") == 20
    assert waits.waited(CACHE, "another") == 0
    now = 119
    assert waits.waited(CACHE, "one") == 119
    now = 219
    assert waits.waited(CACHE, "one") == 0
    waits.over(CACHE)
    now = 220
    assert waits.waited(CACHE, "one") == 0


class Clock:
    """Time that passes only where the driver waits."""

    def __init__(self, caches: Caches) -> None:
        self.now = 0.0
        caches.changed = self.changed  # type: ignore[method-assign]  # waiting is what moves this clock

    def __call__(self) -> float:
        return self.now

    async def changed(self, timeout: float) -> None:
        self.now += timeout


def settler(caches: Caches) -> tuple[Settler, Clock]:
    clock = Clock(caches)
    return Settler(caches, Settings(node_name="n"), clock), clock


async def test_thirty_seconds_are_two_calls_and_then_a_cold_start() -> None:
    caches = Caches()
    caches.say(CACHE, Answer(reason="RegistryDown", message="no route", awaited="sha256:new"))
    settling, clock = settler(caches)
    with pytest.raises(NotYetError, match="RegistryDown: no route"):
        await settling.settle(CACHE, POD)
    assert clock.now == 20
    clock.now = 21  # kubelet's pause
    outcome = await settling.settle(CACHE, POD)
    assert clock.now == 30
    assert (outcome.digest, outcome.reason, outcome.known) == (None, "RegistryDown", True)
    assert (await settling.settle(CACHE, POD)).digest is None
    assert clock.now == 30


async def test_wait_means_wait() -> None:
    caches = Caches()
    caches.say(CACHE, Answer(wait_seconds=None))
    settling, clock = settler(caches)
    for call in range(1, 100):
        with pytest.raises(NotYetError):
            await settling.settle(CACHE, POD)
        assert clock.now == 20 * call
    caches.say(CACHE, Answer("sha256:1", wait_seconds=None))
    outcome = await settling.settle(CACHE, POD)
    assert (outcome.digest, outcome.cold_allowed) == ("sha256:1", False)


async def test_an_older_digest_is_served_at_once_while_a_newer_is_awaited() -> None:
    caches = Caches()
    caches.say(CACHE, Answer("sha256:old", awaited="sha256:new"))
    settling, clock = settler(caches)
    assert (await settling.settle(CACHE, POD)).digest == "sha256:old"
    assert clock.now == 0


async def test_a_namespaces_cache_is_not_for_others_whatever_the_node_says() -> None:
    caches = Caches()
    caches.say(CACHE, Answer("sha256:1"))
    settling, clock = settler(caches)
    stranger = PodName("other", "pod", "2")
    missing = CacheName(CacheKind.GKM_CACHE, "team", "no-such")
    outcomes = []
    for cache in (CACHE, missing):
        clock.now = 0
        with pytest.raises(NotYetError) as waiting:
            await settling.settle(cache, stranger)
        cold = await settling.settle(cache, stranger)
        outcomes.append((str(waiting.value).replace(cache.name, "NAME"), cold, clock.now))
    assert outcomes[0] == outcomes[1]
