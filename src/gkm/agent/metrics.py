"""What an agent measures beside its controllers: trees, staging, views, hits and misses."""

from collections.abc import Callable, Collection, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gkm.agent.state import NodeState
from gkm.agent.uses import Use

# Seconds; from a small cache in the same rack to a large one across a slow line.
_STAGING_BUCKETS = (0.5, 1, 2, 5, 10, 30, 60, 300, 1800)


class AgentMetrics(Collector):
    """Registers itself in `registry`; gauges are read from `state` and `uses` at each scrape."""

    def __init__(
        self, registry: CollectorRegistry, state: NodeState, uses: Callable[[], Collection[Use]]
    ) -> None:
        self._state = state
        self._uses = uses
        self.seconds = Histogram(
            "gkm_staging_seconds",
            "Duration of staging one digest",
            buckets=_STAGING_BUCKETS,
            registry=registry,
        )
        self.failures = Counter(
            "gkm_staging_failures_total", "Attempts to stage that failed", ["reason"], registry=registry
        )
        self.hits = Counter("gkm_hits_total", "Entries that pods used, where observed", registry=registry)
        self.misses = Counter("gkm_misses_total", "Entries that pods had to compile", registry=registry)
        registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The gauges."""
        state, uses = self._state, self._uses()
        yield GaugeMetricFamily("gkm_sealed_trees", "Sealed trees", value=len(state.staged))
        yield GaugeMetricFamily(
            "gkm_sealed_tree_bytes", "Bytes of all sealed trees", value=sum(state.staged.values())
        )
        yield GaugeMetricFamily("gkm_staging", "Digests on their way", value=len(state.staging))
        yield GaugeMetricFamily("gkm_staging_failing", "Digests that fail", value=len(state.errors))
        views = GaugeMetricFamily("gkm_views", "Mounted views", labels=["start"])
        cold = sum(use.digest is None for use in uses)
        views.add_metric(["cold"], cold)
        views.add_metric(["warm"], len(uses) - cold)
        yield views

    def counted(self, hits: int, misses: int) -> None:
        """The last count of a view whose pod is gone."""
        self.hits.inc(hits)
        self.misses.inc(misses)
