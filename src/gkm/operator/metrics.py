"""What the operator measures beside its controllers: caches by phase, nodes and pods that have them, resolving.

The gauges are what caches' statuses say, so that every replica tells the same, whether it leads or waits; only
the one that leads resolves.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gkm.api.values import CacheKind, Phase
from gkm.operator.objects import Cache

# Seconds; from a registry in the same rack to one that reaches `Settings.resolve_seconds`.
_RESOLVE_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

_NODES = {"in-use": "node_in_use_cnt", "not-in-use": "node_not_in_use_cnt", "error": "node_error_cnt"}
_PODS = {"running": "pod_running_cnt", "outdated": "pod_outdated_cnt", "deleting": "pod_deleting_cnt"}


class OperatorMetrics(Collector):
    """Registers itself in `registry`; gauges are read from what `caches` gives at each scrape."""

    def __init__(
        self, registry: CollectorRegistry, caches: Callable[[], Iterable[tuple[CacheKind, Cache]]]
    ) -> None:
        self._caches = caches
        self._seconds = Histogram(
            "gkm_resolve_seconds",
            "Duration of resolving and judging one image",
            buckets=_RESOLVE_BUCKETS,
            registry=registry,
        )
        self._failures = Counter(
            "gkm_resolve_failures_total", "Attempts to resolve that failed", ["reason"], registry=registry
        )
        registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The gauges."""
        phases = Tally(dict.fromkeys(product(CacheKind, Phase), 0))
        nodes, pods = Tally(dict.fromkeys(_NODES, 0)), Tally(dict.fromkeys(_PODS, 0))
        for kind, cache in self._caches():
            # Without a status it is one that the operator has yet to look at.
            phases[kind, (cache.status and cache.status.phase) or Phase.PENDING] += 1
            counts = cache.status.counts if cache.status else None
            for tally, fields in ((nodes, _NODES), (pods, _PODS)):
                tally.update({state: getattr(counts, field, 0) for state, field in fields.items()})
        found = GaugeMetricFamily("gkm_caches", "Caches", labels=["kind", "phase"])
        for (kind, phase), number in phases.items():
            found.add_metric([kind.value, phase.value], number)
        yield found
        for name, text, tally in (
            ("gkm_cache_nodes", "Nodes that have a cache, summed over all caches", nodes),
            ("gkm_cache_pods", "Pods that have a cache mounted warm, summed over all caches", pods),
        ):
            family = GaugeMetricFamily(name, text, labels=["state"])
            for state, number in tally.items():
                family.add_metric([state], number)
            yield family

    def resolved(self, seconds: float, failure: str | None) -> None:
        """An attempt to resolve ended; `failure` is the reason of one that failed."""
        self._seconds.observe(seconds)
        if failure is not None:
            self._failures.labels(failure).inc()
