"""Metrics under the names of controller-runtime and client-go, so that dashboards made for those work.

(controller-runtime `pkg/internal/controller/metrics` and `pkg/metrics`; client-go `rest`, `util/workqueue`,
`tools/leaderelection`.) Reflectors have none there any more; ours follow the same style. Every family is
registered in the registry that is handed in, which takes one `Metrics`.
"""

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gkm.kube.objects import Key
from gkm.kube.queue import WorkQueue

# Seconds; wide enough for a reconcile of a millisecond and one that reaches its time limit.
_RECONCILE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_QUEUE_BUCKETS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10, 100, 1000)


class Metrics:
    """Makes the meters that the parts of a manager are given."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(name, text, labels, buckets=buckets, registry=registry)

        runtime, c = "controller_runtime", "controller"
        self.results = counter(f"{runtime}_reconcile_total", "Reconciles by how they ended", c, "result")
        self.errors = counter(f"{runtime}_reconcile_errors_total", "Reconciles that failed", c)
        self.terminal = counter(f"{runtime}_terminal_reconcile_errors_total", "Reconciles given up", c)
        self.timeouts = counter(f"{runtime}_reconcile_timeouts_total", "Reconciles that took too long", c)
        self.seconds = histogram(
            f"{runtime}_reconcile_time_seconds", "Duration of a reconcile", _RECONCILE_BUCKETS, c
        )
        self.workers = gauge(f"{runtime}_max_concurrent_reconciles", "Workers of a controller", c)
        self.active = gauge(f"{runtime}_active_workers", "Reconciles under way", c)

        queue, n = "workqueue", "name"
        self.depth = gauge(f"{queue}_depth", "Keys that are ready", n)
        self.adds = counter(f"{queue}_adds_total", "Keys added", n)
        self.retries = counter(f"{queue}_retries_total", "Keys added for another try", n)
        self.waited = histogram(f"{queue}_queue_duration_seconds", "Wait for a worker", _QUEUE_BUCKETS, n)
        self.worked = histogram(f"{queue}_work_duration_seconds", "Work on a key", _QUEUE_BUCKETS, n)
        self.unfinished = gauge(f"{queue}_unfinished_work_seconds", "Age of all work under way, summed", n)
        self.longest = gauge(
            f"{queue}_longest_running_processor_seconds", "Age of the oldest work under way", n
        )

        self.requests = counter(
            "rest_client_requests_total",
            "Requests by answer, each once whatever its retries",
            "code",
            "method",
            "host",
        )
        self.leader = gauge("leader_election_master_status", "Whether this process leads", n)

        r = "resource"
        self.asked = counter("reflector_requests_total", "Lists and watches begun", r, "mode")
        self.failures = counter("reflector_failures_total", "Lists and watches that failed", r, "reason")
        self.unreadable = counter("reflector_unreadable_objects_total", "Objects that do not fit", r)
        self.handlers = counter("reflector_handler_failures_total", "Handlers that raised", r)
        self.healthy = gauge("reflector_healthy", "Whether the store is kept up to date", r)
        self.events = counter("events_dropped_total", "Events that were not sent", "why")

    def request(self, method: str, host: str, code: str) -> None:
        """Count a request to the API server (a `RequestObserver`)."""
        self.requests.labels(code, method, host).inc()

    def event_dropped(self, why: str) -> None:
        """Count an event that was not sent."""
        self.events.labels(why).inc()


class ControllerMeter:
    """A controller's metrics (`ControllerMetrics`)."""

    def __init__(self, metrics: Metrics, name: str, workers: int) -> None:
        self._metrics = metrics
        self._name = name
        self._active = metrics.active.labels(name)
        self._seconds = metrics.seconds.labels(name)
        metrics.workers.labels(name).set(workers)

    def started(self) -> None:
        """A reconcile began."""
        self._active.inc()

    def ended(self, result: str, seconds: float) -> None:
        """A reconcile ended as `result` says."""
        self._active.dec()
        self._seconds.observe(seconds)
        word = result if result in ("success", "requeue_after") else "error"
        self._metrics.results.labels(self._name, word).inc()
        families = {
            "error": [self._metrics.errors],
            "timeout": [self._metrics.errors, self._metrics.timeouts],
            "terminal": [self._metrics.errors, self._metrics.terminal],
        }
        for family in families.get(result, []):
            family.labels(self._name).inc()


class QueueMeter:
    """A work queue's metrics (`QueueMetrics`); ages are computed when they are read."""

    def __init__(self, metrics: Metrics, name: str) -> None:
        self._adds = metrics.adds.labels(name)
        self._retries = metrics.retries.labels(name)
        self._waited = metrics.waited.labels(name)
        self._worked = metrics.worked.labels(name)
        self._depth = metrics.depth.labels(name)
        self._added: dict[Key, float] = {}
        self._taken: dict[Key, float] = {}
        metrics.unfinished.labels(name).set_function(lambda: sum(self._ages()))
        metrics.longest.labels(name).set_function(lambda: max(self._ages(), default=0.0))

    def of(self, queue: WorkQueue[Key]) -> None:
        """Read the depth from `queue` from now on."""
        self._depth.set_function(lambda: len(queue))

    def added(self, key: Key) -> None:
        """Work on `key` became wanted."""
        self._adds.inc()
        self._added.setdefault(key, time.monotonic())

    def taken(self, key: Key) -> None:
        """Work on `key` began."""
        now = time.monotonic()
        self._waited.observe(now - self._added.pop(key, now))
        self._taken[key] = now

    def done(self, key: Key) -> None:
        """Work on `key` ended."""
        now = time.monotonic()
        self._worked.observe(now - self._taken.pop(key, now))

    def retried(self) -> None:
        """A key failed and will be tried again."""
        self._retries.inc()

    def _ages(self) -> list[float]:
        now = time.monotonic()
        return [now - began for began in list(self._taken.values())]


class ReflectorMeter:
    """A reflector's metrics (`ReflectorMetrics`)."""

    def __init__(self, metrics: Metrics, resource: str) -> None:
        self._metrics = metrics
        self._resource = resource
        # A family with labels shows nothing until they are used: show that nothing is healthy yet.
        self.healthy(False)

    def requested(self, mode: str) -> None:
        """A list or watch began."""
        self._metrics.asked.labels(self._resource, mode.lower()).inc()

    def failed(self, reason: str) -> None:
        """A list or watch failed."""
        self._metrics.failures.labels(self._resource, reason).inc()

    def unreadable(self) -> None:
        """An object did not fit the projection."""
        self._metrics.unreadable.labels(self._resource).inc()

    def handler_failed(self) -> None:
        """A handler raised."""
        self._metrics.handlers.labels(self._resource).inc()

    def healthy(self, healthy: bool) -> None:
        """The store is complete and kept up to date, or not."""
        self._metrics.healthy.labels(self._resource).set(healthy)


class LeaderMeter:
    """A leader elector's metrics (`LeaderMetrics`)."""

    def __init__(self, metrics: Metrics, name: str) -> None:
        self._status = metrics.leader.labels(name)
        self.leading(False)

    def leading(self, leading: bool) -> None:
        """This process leads, or not."""
        self._status.set(leading)
