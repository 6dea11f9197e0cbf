"""What the operator measures, from the statuses of caches."""

from prometheus_client import CollectorRegistry

from gkm.api.status import CacheStatus, Counts
from gkm.api.values import CacheKind, Phase
from gkm.operator.metrics import OperatorMetrics
from gkm.operator.objects import Cache
from support.cache_facts import cache


def status(phase: Phase | None, **counts: int) -> CacheStatus:
    fields = dict.fromkeys(Counts.__struct_fields__, 0)
    return CacheStatus(phase=phase, counts=Counts(**(fields | counts)))


def measured(*caches: tuple[CacheKind, Cache]) -> CollectorRegistry:
    registry = CollectorRegistry()
    OperatorMetrics(registry, lambda: caches)
    return registry


def test_caches_are_told_by_kind_and_phase_and_their_nodes_and_pods_are_summed() -> None:
    one = status(Phase.OUTDATED, node_in_use_cnt=1, pod_running_cnt=3, pod_outdated_cnt=2)
    other = status(Phase.RUNNING, node_in_use_cnt=2, node_error_cnt=1, pod_running_cnt=4)
    found = measured(
        (CacheKind.GKM_CACHE, cache(status=one)),
        (CacheKind.CLUSTER_GKM_CACHE, cache(cluster=True, status=other)),
    )
    value = found.get_sample_value
    assert value("gkm_caches", {"kind": "GKMCache", "phase": "Outdated"}) == 1
    assert value("gkm_caches", {"kind": "GKMCache", "phase": "Running"}) == 0
    assert value("gkm_caches", {"kind": "ClusterGKMCache", "phase": "Running"}) == 1
    nodes = {state: value("gkm_cache_nodes", {"state": state}) for state in ("in-use", "not-in-use", "error")}
    assert nodes == {"in-use": 3, "not-in-use": 0, "error": 1}
    pods = {state: value("gkm_cache_pods", {"state": state}) for state in ("running", "outdated", "deleting")}
    assert pods == {"running": 7, "outdated": 2, "deleting": 0}


def test_a_cache_that_nobody_looked_at_is_pending() -> None:
    found = measured((CacheKind.GKM_CACHE, cache()), (CacheKind.GKM_CACHE, cache(status=status(None))))
    assert found.get_sample_value("gkm_caches", {"kind": "GKMCache", "phase": "Pending"}) == 2


def test_a_failure_is_counted_by_its_reason_and_every_attempt_takes_time() -> None:
    registry = CollectorRegistry()
    metrics = OperatorMetrics(registry, lambda: ())
    metrics.resolved(0.2, None)
    metrics.resolved(0.3, "NotFound")
    assert registry.get_sample_value("gkm_resolve_seconds_count") == 2
    assert registry.get_sample_value("gkm_resolve_failures_total", {"reason": "NotFound"}) == 1
