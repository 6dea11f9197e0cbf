"""What a node decides about a digest, before anything is asked of anybody."""

from hypothesis import given
from hypothesis import strategies as st

from gkm.agent.fitness import Hardware
from gkm.agent.grants import Source, still_of_use
from gkm.agent.plan import Action, Failure, Wish, after_failure, decide, source_of_attempt, wish_for
from gkm.api.grant import GKMGrant
from gkm.api.values import Staging
from gkm.base.backoff import Backoff
from gkm.gpus.simulated import parse_simulated
from support.granting import SM_80, SM_90, digest, grant

A100 = Hardware(parse_simulated("A100"))
A, B, C = digest("a"), digest("b"), digest("c")


def wish(wanted: str, *grants: GKMGrant, hardware: Hardware = A100, **more: object) -> Wish | None:
    options = {"node_labels": {}, "demanded": set(), **more}
    return wish_for(wanted, grants, judge=hardware.judge, **options)  # type: ignore[arg-type]


def test_an_eager_cache_that_fits_is_wished_for() -> None:
    found = wish(A, grant(A))
    assert found is not None
    assert not found.demanded
    assert found.bytes == 1000


def test_a_node_that_a_cache_does_not_fit_never_wishes_for_it() -> None:
    assert wish(A, grant(A, targets=(SM_90,))) is None
    assert wish(A, grant(A, targets=(SM_90,)), demanded={"uid-vector-add"}) is None


def test_one_fitting_target_is_enough_and_so_is_one_fitting_gpu() -> None:
    assert wish(A, grant(A, targets=(SM_90, SM_80))) is not None
    assert wish(A, grant(A, targets=(SM_90,)), hardware=Hardware(parse_simulated("A100,H100"))) is not None


def test_only_a_known_no_keeps_a_cache_away() -> None:
    for untold in (None, ()):
        assert wish(A, grant(A, targets=untold)) is not None


def test_a_node_without_gpus_stages_nothing_unless_the_check_is_off() -> None:
    bare = parse_simulated("none")
    assert wish(A, grant(A), hardware=Hardware(bare)) is None
    assert wish(A, grant(A, targets=None), hardware=Hardware(bare)) is None
    assert wish(A, grant(A), hardware=Hardware(bare, unchecked=True)) is not None


def test_eager_staging_follows_the_node_selector_and_a_pod_overrides_it() -> None:
    chosen = grant(A, selector={"pool": "gpu"})
    assert wish(A, chosen) is None
    assert wish(A, chosen, node_labels={"pool": "cpu"}) is None
    assert wish(A, chosen, node_labels={"pool": "gpu", "zone": "a"}) is not None
    found = wish(A, chosen, demanded={"uid-vector-add"})
    assert found is not None
    assert found.demanded


def test_on_demand_waits_for_the_first_pod() -> None:
    lazy = grant(A, staging=Staging.ON_DEMAND)
    assert wish(A, lazy) is None
    assert wish(A, lazy, demanded={"uid-vector-add"}) is not None


def test_only_the_first_digest_of_a_living_grant_is_staged() -> None:
    assert wish(B, grant(A, B)) is None
    assert wish(A, grant(A, ending=True)) is None
    assert wish(A, grant()) is None


def test_caches_that_share_a_digest_are_one_wish_with_all_their_sources() -> None:
    one = grant(A, name="one", size=10)
    two = grant(A, name="two", namespace=None, pull_secret="pull-two", size=None)
    found = wish(A, one, two)
    assert found is not None
    assert {source.pull_secret for source in found.sources} == {None, "pull-two"}
    assert found.bytes == 10
    seen = {source_of_attempt(found, Failure(count, 0, 0, found.sources)) for count in range(2)}
    assert seen == set(found.sources)


def test_a_size_that_nobody_tells_is_unknown() -> None:
    found = wish(A, grant(A, size=None))
    assert found is not None
    assert found.bytes is None


def plain(demanded: bool = False, image: str = "registry.example/a") -> Wish:
    return Wish(A, (Source(image, None),), None, demanded)


def test_eager_nodes_spread_out_and_pods_do_not_wait_for_that() -> None:
    waiting = decide(plain(), staged=False, failure=None, eager_from=107.0, now=100.0)
    assert (waiting.action, waiting.seconds) == (Action.WAIT, 7.0)
    assert decide(plain(), staged=False, failure=None, eager_from=107.0, now=107.0).action is Action.STAGE
    at_once = decide(plain(demanded=True), staged=False, failure=None, eager_from=107.0, now=100.0)
    assert at_once.action is Action.STAGE


def test_what_is_staged_or_not_wished_for_is_left_alone() -> None:
    assert decide(plain(), staged=True, failure=None, eager_from=0, now=1).action is Action.NOTHING
    assert decide(None, staged=False, failure=None, eager_from=0, now=1).action is Action.NOTHING


def test_pods_do_not_shorten_a_backoff_and_a_changed_source_does() -> None:
    failure = Failure(3, at=100.0, pause=20.0, sources=plain().sources)
    for demanded in (False, True):
        found = decide(plain(demanded), staged=False, failure=failure, eager_from=0, now=105.0)
        assert (found.action, found.seconds) == (Action.WAIT, 15.0)
    mended = plain(demanded=True, image="registry.example/b")
    assert decide(mended, staged=False, failure=failure, eager_from=0, now=105.0).action is Action.STAGE


@given(st.integers(min_value=1, max_value=200))
def test_failures_in_a_row_wait_longer_up_to_a_limit(times: int) -> None:
    backoff = Backoff(first=1.0, factor=2.0, longest=60.0, jitter=0.0)
    failure = None
    for _ in range(times):
        failure = after_failure(plain(), failure, 0.0, backoff)
    assert failure is not None
    assert failure.count == times
    assert failure.pause == min(60.0, 2.0 ** (times - 1))
    assert after_failure(plain(image="registry.example/b"), failure, 0.0, backoff).count == 1


_GRANTS = st.lists(
    st.builds(
        lambda digests, name, ending: grant(*digests, name=name, ending=ending),
        st.lists(st.sampled_from([A, B, C]), max_size=3, unique=True),
        st.sampled_from(["one", "two", "three"]),
        st.booleans(),
    ),
    max_size=4,
)


@given(_GRANTS, st.sets(st.sampled_from([A, B, C])))
def test_what_new_pods_would_get_is_never_garbage(grants: list[GKMGrant], staged: set[str]) -> None:
    kept = still_of_use(grants, staged)
    for one in grants:
        if one.metadata.deletion_timestamp is not None or not one.spec.digests:
            continue
        serving = next((d for d in one.spec.digests if d in staged), None)
        assert serving is None or serving in kept
        assert one.spec.digests[0] in kept
    granted = {d for one in grants if one.metadata.deletion_timestamp is None for d in one.spec.digests}
    assert kept <= granted


def test_the_older_tree_goes_once_the_newer_is_staged() -> None:
    assert still_of_use([grant(A, B)], {B}) == {A, B}
    assert still_of_use([grant(A, B)], {A, B}) == {A}
