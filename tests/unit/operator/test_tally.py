"""Counting: who counts, what is counted, and which old digests are still needed."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gkm.api.meta import ObjectMeta
from gkm.api.node import DigestReport, GKMCacheNode, NodeStatus
from gkm.api.status import Counts
from gkm.api.values import StageState
from gkm.kube.objects import ObjectMeta as SlimMeta
from gkm.operator import objects
from gkm.operator.counting import NodeView, counting
from gkm.operator.tally import tally
from support.cache_facts import NOW, A, B, C, report

STAGED, STAGING, FAILED = StageState.STAGED, StageState.STAGING, StageState.FAILED
INCOMPATIBLE = StageState.INCOMPATIBLE
NO_COUNTS = Counts(
    node_cnt=0, node_in_use_cnt=0, node_not_in_use_cnt=0, node_error_cnt=0,
    pod_running_cnt=0, pod_deleting_cnt=0, pod_outdated_cnt=0,
)  # fmt: skip


def node(name: str, ready: str = "True", for_seconds: float = 0.0) -> objects.Node:
    since = (NOW - timedelta(seconds=for_seconds)).isoformat()
    condition = objects.Condition(type="Ready", status=ready, last_transition_time=since)
    return objects.Node(metadata=SlimMeta(name=name), status=objects.NodeStatus(conditions=(condition,)))


def node_report(name: str, node_name: str | None = None) -> GKMCacheNode:
    status = NodeStatus(
        node_name=node_name or name, counts=NO_COUNTS, caches={"kernels": {A: report(STAGED)}}
    )
    return GKMCacheNode(metadata=ObjectMeta(name=name, namespace="team"), status=status)


@pytest.mark.parametrize(
    ("there", "counts"),
    [
        (node("a"), True),
        (node("a", "False", 299), True),
        (node("a", "Unknown", 300), False),
        (None, False),
    ],
)
def test_only_nodes_that_exist_and_were_ready_of_late_count(there: objects.Node | None, counts: bool) -> None:
    nodes = {"a": there} if there else {}
    views = counting([node_report("a")], nodes, "kernels", NOW, timedelta(minutes=5))
    assert bool(views.nodes) is counts


def test_the_moment_at_which_a_node_ceases_to_count_is_told() -> None:
    nodes = {"a": node("a", "False", 100), "b": node("b", "Unknown", 200)}
    views = counting([node_report("a"), node_report("b")], nodes, "kernels", NOW, timedelta(minutes=5))
    assert views.until == NOW + timedelta(seconds=100)


def test_a_report_in_another_nodes_name_counts_for_nobody() -> None:
    views = counting(
        [node_report("a", node_name="b")], {"a": node("a"), "b": node("b")}, "kernels", NOW, timedelta(1)
    )
    assert views.nodes == ()


def test_a_node_that_cannot_use_the_cache_is_in_no_count() -> None:
    assert tally([NodeView("a", {A: report(INCOMPATIBLE)})], A).counts == NO_COUNTS


def test_cold_pods_are_in_no_count_but_their_node_is() -> None:
    counts = tally([NodeView("a", {A: report(STAGING, "x", cold=True)})], A).counts
    assert (counts.node_cnt, counts.node_in_use_cnt, counts.pod_running_cnt) == (1, 0, 0)


def test_a_node_that_fails_the_newest_still_serves_the_older() -> None:
    counted = tally([NodeView("a", {A: report(FAILED), B: report(STAGED, "x")})], A)
    assert (counted.counts.node_in_use_cnt, counted.counts.node_error_cnt) == (1, 1)
    assert counted.counts.pod_outdated_cnt == 1
    assert counted.needed == {B}


@pytest.mark.parametrize(
    ("newest", "needed"),
    [(None, True), (STAGING, True), (FAILED, True), (STAGED, False), (INCOMPATIBLE, False)],
)
def test_an_unused_old_digest_is_needed_until_the_newest_is_there(
    newest: StageState | None, needed: bool
) -> None:
    digests = {B: report(STAGED)} | ({A: report(newest)} if newest else {})
    assert (B in tally([NodeView("n", digests)], A).needed) is needed


_REPORTS = st.builds(
    lambda state, warm, cold: DigestReport(
        state=state,
        pods=(*(report(state, *map(str, range(warm))).pods or ()),
              *(report(state, *map(str, range(warm, warm + cold)), cold=True).pods or ())),
        last_updated=NOW,
    ),
    st.sampled_from(list(StageState)), st.integers(0, 3), st.integers(0, 2),
)  # fmt: skip
_VIEWS = st.lists(st.dictionaries(st.sampled_from([A, B, C]), _REPORTS, min_size=1), max_size=6).map(
    lambda found: [NodeView(str(number), digests) for number, digests in enumerate(found)]
)


@given(_VIEWS, st.sampled_from([A, B, None]), st.booleans())
def test_counts_agree_with_each_other(views: list[NodeView], newest: str | None, deleting: bool) -> None:
    counted = tally(views, newest, deleting=deleting)
    c = counted.counts
    assert c.node_in_use_cnt + c.node_not_in_use_cnt <= c.node_cnt <= len(views)
    assert c.pod_outdated_cnt <= c.pod_running_cnt
    assert c.pod_deleting_cnt == (c.pod_running_cnt if deleting else 0)
    assert (c.pod_running_cnt > 0) == (c.node_in_use_cnt > 0) == counted.in_use
    assert newest not in counted.needed
    # Whatever a pod has mounted stays granted.
    for view in views:
        for digest, found in view.digests.items():
            if digest != newest and any(not pod.cold for pod in found.pods or ()):
                assert digest in counted.needed
