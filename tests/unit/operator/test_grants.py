"""Grants: what is granted first, what stays, what is withdrawn; always what the CRD's rules accept."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gkm.api.grant import GKMGrant
from gkm.api.meta import ConditionStatus, ObjectMeta
from gkm.api.names import Annotation
from gkm.api.values import WhenUnavailable
from gkm.operator.attempts import Failed, Judged, Outcome
from gkm.operator.deletion import Step, next_step
from gkm.operator.grants import desired, grant_patch, granted, limit_bytes, serving, withdrawn
from gkm.trust.gate import Judgement
from support.cache_facts import A, B, C, cache, resolution

ALLOWED = Judgement(True, ConditionStatus.UNKNOWN, "NotConfigured", "")
REFUSED = Judgement(False, ConditionStatus.FALSE, "NoPolicy", "")
FAILED = Failed("Unavailable", "the registry is down")


def judged(digest: str, judgement: Judgement = ALLOWED) -> Judged:
    return Judged(resolution(digest), judgement)


def grant(*steps: tuple[Outcome | None, set[str]]) -> GKMGrant:
    """The grant after a cache went through `steps`: outcomes, and the digests that were needed then."""
    current: GKMGrant | None = None
    for outcome, needed in steps:
        current = desired(cache(), current, outcome, needed, pull_secret=None)
    assert current is not None
    return current


def test_nothing_is_granted_before_it_is_resolved() -> None:
    assert grant((None, set())).spec.digests == ()
    assert grant((FAILED, set())).spec.digests == ()


def test_a_refused_candidate_leaves_the_last_good_digest_serving() -> None:
    assert grant((judged(A), set()), (judged(B, REFUSED), set())).spec.digests == (A,)
    assert grant((judged(B, REFUSED), set())).spec.digests == ()


def test_a_digest_that_is_not_allowed_any_more_is_withdrawn_with_all_older_ones() -> None:
    found = grant((judged(A), set()), (judged(B), {A}), (judged(B, REFUSED), {A}))
    assert found.spec.digests == ()
    assert found.metadata.annotations is None


def test_a_registry_that_is_down_takes_nothing_away() -> None:
    assert grant((judged(A), set()), (judged(B), {A}), (FAILED, {A})).spec.digests == (B, A)


def test_older_digests_stay_newest_first_while_they_are_needed() -> None:
    assert grant((judged(A), set()), (judged(B), {A}), (judged(C), {A, B})).spec.digests == (C, B, A)
    assert grant((judged(A), set()), (judged(B), {A}), (judged(C), {A})).spec.digests == (C, A)


def test_reports_cannot_bring_a_digest_into_the_grant() -> None:
    assert grant((judged(A), {B, C})).spec.digests == (A,)


def test_the_generation_that_was_resolved_is_remembered_and_no_other() -> None:
    found = grant((judged(A), set()))
    assert granted(found, 1) == resolution(A)
    assert granted(found, 2) is None
    damaged = msgspec.structs.replace(
        found, metadata=ObjectMeta(name="x", annotations={Annotation.RESOLVED_GENERATION: "one"})
    )
    assert granted(damaged, 1) is None


def test_namespaces_are_the_caches_own_the_listed_ones_or_all() -> None:
    own = desired(cache(workload_namespaces=("x",)), None, None, (), pull_secret=None).spec
    listed = desired(
        cache(cluster=True, workload_namespaces=("b", "a")), None, None, (), pull_secret=None
    ).spec
    everywhere = desired(cache(cluster=True), None, None, (), pull_secret=None).spec
    assert (own.namespaces, own.all_namespaces) == (("team",), None)
    assert (listed.namespaces, listed.all_namespaces) == (("a", "b"), None)
    assert (everywhere.namespaces, everywhere.all_namespaces) == (None, True)


def test_a_withdrawn_grant_lets_nobody_mount_and_nobody_wait() -> None:
    spec = withdrawn(grant((judged(A), set()))).spec
    assert (spec.digests, spec.image, spec.targets) == ((), None, None)
    assert (spec.when_unavailable, spec.wait_seconds) == (WhenUnavailable.START_COLD, 0)


def test_a_patch_is_empty_where_nothing_differs_and_else_names_the_version() -> None:
    one, two = grant((judged(A), set())), grant((judged(B), set()))
    stored = msgspec.structs.replace(
        one, metadata=msgspec.structs.replace(one.metadata, resource_version="5", labels={"their": "own"})
    )
    assert grant_patch(stored, one) == {}
    patch = grant_patch(stored, two)
    assert patch["metadata"] == {"resourceVersion": "5"}
    assert patch["spec"]["digests"] == (B,)


_OUTCOMES = st.none() | st.just(FAILED) | st.builds(
    judged, st.sampled_from([A, B, C]), st.sampled_from([ALLOWED, REFUSED])
)  # fmt: skip


@given(st.lists(st.tuples(_OUTCOMES, st.sets(st.sampled_from([A, B, C]))), min_size=1, max_size=8))
def test_whatever_happens_the_grant_keeps_the_rules_of_its_kind(
    steps: list[tuple[Outcome | None, set[str]]],
) -> None:
    current: GKMGrant | None = None
    for outcome, needed in steps:
        serves = serving(current, outcome)
        found = desired(cache(), current, outcome, needed, pull_secret=None).spec
        assert len(set(found.digests)) == len(found.digests)
        assert found.digests[:1] == ((serves.digest,) if serves else ())
        assert (found.image is None) == (not found.digests)
        assert not found.digests or (found.image or "").endswith("@" + found.digests[0])
        if isinstance(outcome, Judged) and not outcome.judgement.allowed:
            assert found.digests[:1] != (outcome.resolution.digest,)
        current = desired(cache(), current, outcome, needed, pull_secret=None)


@pytest.mark.parametrize(
    ("quantity", "bytes_"),
    [
        (None, None), (5, 5), ("5", 5), ("2k", 2000), ("2Ki", 2048), ("3M", 3_000_000), ("1Gi", 1 << 30),
        ("1T", 10**12), ("1Ti", 1 << 40), ("0", None), ("1.5Gi", None), ("Gi", None),
    ],
)  # fmt: skip
def test_write_limits_are_read_as_the_schema_allows_them(
    quantity: int | str | None, bytes_: int | None
) -> None:
    assert limit_bytes(quantity) == bytes_


def test_a_cache_goes_in_order() -> None:
    live, empty = grant((judged(A), set())), withdrawn(grant((judged(A), set())))
    assert next_step(live, in_use=True, volumes=True, secret=True) is Step.WITHDRAW
    assert next_step(empty, in_use=True, volumes=True, secret=True) is Step.AWAIT_MOUNTS
    assert next_step(empty, in_use=False, volumes=True, secret=True) is Step.REMOVE_VOLUMES
    assert next_step(empty, in_use=False, volumes=False, secret=True) is Step.REMOVE_SECRET
    assert next_step(empty, in_use=False, volumes=False, secret=False) is Step.REMOVE_GRANT
    assert next_step(None, in_use=False, volumes=False, secret=False) is Step.RELEASE
