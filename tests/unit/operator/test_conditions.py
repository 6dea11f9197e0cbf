"""Conditions, phase and status from facts."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from gkm.api.meta import ConditionStatus
from gkm.api.status import CacheStatus
from gkm.api.values import Delivery, Phase, StageState, Staging
from gkm.kube.events import Type
from gkm.operator.announce import announcements
from gkm.operator.attempts import Failed, Judged, Outcome
from gkm.operator.conditions import Facts, conditions
from gkm.operator.counting import NodeView
from gkm.operator.delivery import Delivered
from gkm.operator.grants import desired
from gkm.operator.status import patch, status
from gkm.operator.tally import tally
from gkm.operator.volumes import Stage
from gkm.trust.gate import Judgement
from support.cache_facts import NOW, A, B, cache, report, resolution

BOUND = Delivered({"team": Stage.BOUND})
GOOD = Judged(resolution(A), Judgement(True, ConditionStatus.UNKNOWN, "NotConfigured", "none"))
REFUSED = Judged(resolution(B), Judgement(False, ConditionStatus.FALSE, "NoPolicy", "write one"))
DOWN = Failed("Unavailable", "down")
STAGED, STAGING, FAILED = StageState.STAGED, StageState.STAGING, StageState.FAILED


def facts(
    outcome: Outcome | None = GOOD,
    *views: dict[str, Any],
    granted: bool = True,
    delivered: Delivered = BOUND,
    candidates: bool = True,
    may_answer: bool = False,
    before: CacheStatus | None = None,
    **spec: Any,
) -> Facts:
    made = cache(status=before, **spec)
    grant = desired(made, None, GOOD if granted else None, (), pull_secret=None)
    found = desired(made, grant, outcome, (), pull_secret=None)
    nodes = [NodeView(str(number), digests) for number, digests in enumerate(views)]
    newest = found.spec.digests[0] if found.spec.digests else None
    return Facts(made, found, outcome, tally(nodes, newest), delivered, candidates, may_answer)


def told(given: Facts, kind: str) -> tuple[str, str]:
    found = {c.type: c for c in conditions(given, NOW)}[kind]
    return found.status.value, found.reason


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (facts(), ("False", "NoCompatibleNode")),
        (facts(may_answer=True), ("False", "Staging")),
        (facts(candidates=False, may_answer=True), ("False", "NoCompatibleNode")),
        (facts(staging=Staging.ON_DEMAND), ("True", "OnDemand")),
        (facts(GOOD, {A: report(STAGING)}), ("False", "Staging")),
        (facts(GOOD, {A: report(STAGED)}), ("True", "Staged")),
        (facts(GOOD, {A: report(STAGED)}, {A: report(STAGING)}), ("False", "Staging")),
        (facts(GOOD, {A: report(STAGED)}, {A: report(FAILED)}), ("False", "NodeError")),
        (facts(GOOD, {A: report(STAGED)}, {A: report(StageState.INCOMPATIBLE)}), ("True", "Staged")),
        (facts(None, granted=False), ("False", "NotResolved")),
        (facts(DOWN, {A: report(STAGED)}), ("True", "Staged")),
    ],
)
def test_ready_is_what_the_nodes_that_should_have_the_cache_say(
    given: Facts, answer: tuple[str, str]
) -> None:
    assert told(given, "Ready") == answer


def test_unknown_trust_does_not_make_ready_false() -> None:
    given = facts(GOOD, {A: report(STAGED)})
    assert told(given, "Verified") == ("Unknown", "NotConfigured")
    assert told(given, "Ready")[0] == "True"


def test_a_refused_candidate_is_named_while_the_old_digest_serves() -> None:
    given = facts(REFUSED)
    found = status(given, NOW)
    assert told(given, "Verified") == ("False", "NoPolicy")
    assert (found.resolved_digest, found.candidate_digest) == (A, B)
    assert found.last_error is not None
    assert found.last_error.reason == "NoPolicy"
    assert found.phase == Phase.PENDING


def test_a_registry_that_is_down_is_told_while_the_old_digest_serves() -> None:
    found = status(facts(DOWN, {A: report(STAGED, "x")}), NOW)
    resolved = next(c for c in found.conditions or () if c.type == "Resolved")
    assert (resolved.status.value, resolved.reason) == ("False", "Unavailable")
    assert A in resolved.message
    assert found.phase == Phase.RUNNING


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (facts(DOWN, granted=False), Phase.ERROR),
        (facts(None, granted=False), Phase.PENDING),
        (facts(GOOD, {A: report(STAGING)}), Phase.DOWNLOADING),
        (facts(GOOD, {A: report(STAGED)}), Phase.EXTRACTED),
        (facts(GOOD, {A: report(STAGED, "x")}), Phase.RUNNING),
        (facts(GOOD, {B: report(STAGED, "x")}), Phase.OUTDATED),
        (facts(GOOD, {A: report(STAGED, "x")}, {A: report(FAILED)}), Phase.ERROR),
        (facts(GOOD, delivered=Delivered({"x": Stage.NO_NAMESPACE})), Phase.NO_NAMESPACE),
        (facts(GOOD, delivered=Delivered({"x": Stage.NO_NAMESPACE, "y": Stage.BOUND})), Phase.PENDING),
    ],
)
def test_the_phase_is_upstreams_word_in_upstreams_order(given: Facts, word: Phase) -> None:
    assert status(given, NOW).phase == word


def test_times_move_only_with_the_status_and_a_second_look_changes_nothing() -> None:
    first = status(facts(GOOD, {A: report(STAGING)}), NOW)
    later = NOW + timedelta(hours=1)
    same = facts(GOOD, {A: report(STAGING)}, before=first)
    assert patch(first, status(same, later), later) == ({}, False)
    third = status(facts(GOOD, {A: report(STAGED)}, before=first), later)
    times = {c.type: c.last_transition_time for c in third.conditions or ()}
    assert times["Ready"] == later
    assert times["Resolved"] == NOW


def test_counts_and_phase_are_told_apart_from_other_changes() -> None:
    first = status(facts(GOOD, {A: report(STAGED)}), NOW)
    second = status(facts(GOOD, {A: report(STAGED, "x")}, before=first), NOW)
    third = status(facts(DOWN, {A: report(STAGED, "x")}, before=first), NOW)
    assert patch(first, second, NOW)[1] is True
    assert patch(first, third, NOW)[1] is False


def test_what_an_earlier_process_found_stands_until_this_one_has_asked() -> None:
    first = status(facts(REFUSED), NOW)
    again = facts(None, before=first)
    assert patch(first, status(again, NOW), NOW) == ({}, False)


@pytest.mark.parametrize(
    ("delivered", "answer"),
    [
        (BOUND, ("True", "Delivered")),
        (Delivered({}, every_namespace=True), ("True", "EveryNamespace")),
        (Delivered({"a": Stage.BOUND, "b": Stage.ON_THE_WAY}), ("False", "Delivering")),
        (Delivered({"a": Stage.FOREIGN, "b": Stage.NO_NAMESPACE}), ("False", "ForeignClaim")),
        (Delivered({"a": Stage.TERMINATING}), ("False", "NamespaceTerminating")),
        (Delivered({"a": Stage.BOUND}, failures={"a": ("Forbidden", "quota")}), ("False", "Forbidden")),
    ],
)
def test_delivered_tells_the_hardest_obstacle(delivered: Delivered, answer: tuple[str, str]) -> None:
    assert told(facts(delivered=delivered), "Delivered") == answer


def test_a_message_names_a_few_namespaces_and_counts_the_rest() -> None:
    stages = {f"n{number:02}": Stage.NO_NAMESPACE for number in range(20)}
    found = conditions(facts(delivered=Delivered(stages)), NOW)
    message = next(c.message for c in found if c.type == "Delivered")
    assert "n00, n01, n02, n03, n04 and 15 more" in message


def test_a_delivery_that_does_not_exist_falls_back_and_says_so() -> None:
    given = facts(delivery=Delivery.SHARED_PVC)
    assert told(given, "Delivered") == ("True", "DeliveredByCSI")
    assert status(given, NOW).delivery == Delivery.CSI


def test_events_tell_transitions_once() -> None:
    first = status(facts(GOOD, {A: report(STAGED)}), NOW)
    assert [a.reason for a in announcements(None, first)] == [
        "Created", "Resolved", "NotConfigured", "Delivered"
    ]  # fmt: skip
    used = status(facts(GOOD, {A: report(STAGED, "x")}, before=first), NOW)
    assert [a.reason for a in announcements(first, used)] == ["CacheUsed"]
    assert [a.reason for a in announcements(used, first)] == ["CacheRelease"]
    down = status(facts(DOWN, {A: report(STAGED)}, before=first), NOW)
    assert [(a.type, a.reason) for a in announcements(first, down)] == [(Type.WARNING, "Unavailable")]
    assert announcements(down, msgspec.structs.replace(down, last_updated=NOW)) == []
