"""What a node reports: whole, only where there is something to say, and the same for the same state."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gkm.agent.fitness import Fitness, Hardware
from gkm.agent.plan import Failure
from gkm.agent.report import Facts, desired, scopes
from gkm.agent.state import NodeState
from gkm.agent.uses import Counted, Use, use_of, with_counts
from gkm.api.grant import GKMGrant
from gkm.api.node import DigestReport, NodeStatus
from gkm.api.values import CacheKind, Observation, StageState
from gkm.gpus.simulated import parse_simulated
from support.granting import SM_90, MadeView, ViewedCache, ViewingPod, digest, grant

A, B = digest("a"), digest("b")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
GPUS = parse_simulated("2xA100")


def facts(
    *grants: GKMGrant,
    views: tuple[MadeView, ...] = (),
    state: NodeState | None = None,
    wished: tuple[str, ...] = (),
) -> Facts:
    return Facts(
        node="node-1",
        gpus=GPUS,
        grants=grants,
        uses={view.target: use_of(view) for view in views},
        state=state or NodeState(),
        wished=wished,
        judge=Hardware(GPUS).judge,
    )


def staged(*digests: str) -> NodeState:
    return NodeState(staged=dict.fromkeys(digests, 537))


def entry(status: NodeStatus | None, which: str = A, name: str = "vector-add") -> DigestReport:
    assert status is not None
    assert status.caches is not None
    return status.caches[name][which]


def report(known: Facts, before: NodeStatus | None = None, now: datetime = NOW) -> NodeStatus | None:
    return desired(known, "dev", before, now)


def test_a_grant_alone_is_nothing_to_report() -> None:
    assert report(facts(grant(A))) is None


def test_an_incompatible_node_reports_only_who_started_cold() -> None:
    misfit = grant(A, targets=(SM_90,))
    assert report(facts(misfit)) is None
    found = entry(report(facts(misfit, views=(MadeView(Path("/t"), None),))))
    assert found.state == StageState.INCOMPATIBLE
    assert found.incompatible_gpus == (0, 1)
    assert found.pods is not None
    assert found.pods[0].cold


def test_each_state_of_staging_is_told() -> None:
    state = NodeState()
    assert entry(report(facts(grant(A), wished=(A,)))).state == StageState.PENDING
    state.begin(A, 1000)
    assert entry(report(facts(grant(A), wished=(A,), state=state))).state == StageState.STAGING
    state.fail(A, Failure(1, 0, 1, ()), "Unavailable", "down")
    failed = report(facts(grant(A), wished=(A,), state=state))
    assert entry(failed).state == StageState.FAILED
    assert entry(failed).last_error is not None
    assert failed is not None
    assert failed.counts.node_error_cnt == 1
    state.succeed(A, 537)
    done = report(facts(grant(A), wished=(A,), state=state))
    assert (entry(done).state, entry(done).bytes, entry(done).last_error) == (StageState.STAGED, 537, None)
    assert done is not None
    assert (done.counts.node_not_in_use_cnt, done.counts.node_error_cnt) == (1, 0)
    assert entry(done).compatible_gpus == (0, 1)


def test_a_pod_makes_a_cache_in_use_and_an_older_digest_makes_it_outdated() -> None:
    views = (
        MadeView(Path("/old"), B, pod=ViewingPod("dev", "old", "u1")),
        MadeView(Path("/new"), A, pod=ViewingPod("dev", "new", "u2")),
    )
    found = report(facts(grant(A, B), views=views, state=staged(A, B)))
    assert found is not None
    counts = found.counts
    assert (counts.node_in_use_cnt, counts.node_not_in_use_cnt) == (1, 0)
    assert (counts.pod_running_cnt, counts.pod_outdated_cnt) == (2, 1)
    assert [p.name for p in entry(found, B).pods or ()] == ["old"]
    assert (entry(found, B).pods or ())[0].pod_name == "old"


def test_a_withdrawn_digest_is_reported_while_a_pod_has_it() -> None:
    view = MadeView(Path("/t"), B)
    found = report(facts(grant(A), views=(view,), state=staged(B)))
    assert entry(found, B).state == StageState.DELETING
    assert report(facts(grant(A), state=staged(B))) is None
    gone = report(facts(views=(view,), state=staged(B)))
    assert entry(gone, B).state == StageState.DELETING


def test_pods_of_a_cache_being_deleted_are_counted_as_such() -> None:
    view = MadeView(Path("/t"), A)
    for known in (
        facts(grant(A, ending=True), views=(view,), state=staged(A)),
        facts(views=(view,), state=staged(A)),
    ):
        found = report(known)
        assert found is not None
        counts = found.counts
        assert (counts.pod_running_cnt, counts.pod_deleting_cnt, counts.pod_outdated_cnt) == (1, 1, 0)


def test_reports_are_apart_by_namespace_and_kind() -> None:
    cluster = grant(A, namespace=None)
    view = MadeView(Path("/t"), A, cache=ViewedCache(CacheKind.CLUSTER_GKM_CACHE, None, "vector-add"))
    known = facts(grant(A), grant(A, name="other", namespace="prod"), cluster, views=(view,), state=staged(A))
    assert scopes(known.grants, known.uses.values()) == {"dev", "prod", ""}
    assert (entry(desired(known, "dev", None, NOW)).pods or ()) == ()
    assert [p.uid for p in entry(desired(known, "", None, NOW)).pods or ()] == ["pod-uid-1"]
    assert desired(known, "nowhere", None, NOW) is None


def test_two_volumes_of_one_pod_are_one_pod_with_their_counts_added() -> None:
    first, second = use_of(MadeView(Path("/1"), A)), use_of(MadeView(Path("/2"), A))
    first = with_counts(first, Counted(2, 1, Observation.COMPLETE))
    second = with_counts(second, Counted(3, 0, Observation.PARTIAL_RESTARTED))
    known = replace(facts(grant(A), state=staged(A)), uses={Path("/1"): first, Path("/2"): second})
    pods = entry(report(known)).pods or ()
    assert [(p.hits, p.misses, p.observation) for p in pods] == [(5, 1, Observation.PARTIAL_RESTARTED)]


@given(st.sampled_from(list(Observation)), st.integers(0, 9), st.integers(0, 9), st.booleans())
def test_a_number_is_never_published_for_what_was_not_seen(
    observation: Observation, hits: int, misses: int, cold: bool
) -> None:
    use: Use = with_counts(
        use_of(MadeView(Path("/t"), None if cold else A)), Counted(hits, misses, observation)
    )
    if cold or observation == Observation.NONE:
        assert (use.pod.hits, use.pod.misses) == (None, None)
    else:
        assert (use.pod.hits, use.pod.misses) == (hits, misses)
    assert use.pod.cold is (True if cold else None)


def test_an_unchanged_state_gives_the_very_same_report_later() -> None:
    known = facts(grant(A), views=(MadeView(Path("/t"), A),), state=staged(A))
    first = report(known)
    # What was written comes back from the API server.
    back = msgspec.json.decode(msgspec.json.encode(first), type=NodeStatus)
    assert report(known, back, NOW + timedelta(hours=1)) == first
    more = facts(grant(A), state=staged(A))
    assert entry(report(more, back, NOW + timedelta(hours=1))).last_updated == NOW + timedelta(hours=1)


def test_the_same_failure_again_is_no_news() -> None:
    state = NodeState()
    state.fail(A, Failure(1, 0, 1, ()), "Unavailable", "down")
    first = report(facts(grant(A), state=state, wished=(A,)))
    state.fail(A, Failure(2, 5, 1, ()), "Unavailable", "down")
    assert report(facts(grant(A), state=state, wished=(A,)), first, NOW + timedelta(1)) == first


def test_a_report_judges_each_grant_of_its_namespace_once() -> None:
    grants = [grant(A, name=f"cache-{n}", namespace=f"ns-{n % 4}") for n in range(200)]
    asked: list[str] = []
    judge = Hardware(GPUS).judge

    def counting(one: GKMGrant) -> Fitness:
        asked.append(one.spec.cache.uid)
        return judge(one)

    found = desired(replace(facts(*grants, state=staged(A)), judge=counting), "ns-1", None, NOW)
    assert found is not None
    assert found.counts.node_cnt == 50
    assert len(asked) == len(set(asked)) == 50


def test_of_two_grants_for_one_name_the_living_one_is_reported() -> None:
    known = facts(grant(A, uid="old", ending=True), grant(B, uid="new"), state=staged(A, B))
    found = report(known)
    assert found is not None
    assert (found.caches or {})["vector-add"].keys() == {B}
