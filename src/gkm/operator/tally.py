"""Folding node reports into counts, and into what the grant and the conditions need to know."""

from collections.abc import Iterable
from dataclasses import dataclass

from gkm.api.node import DigestReport
from gkm.api.status import Counts, LastError
from gkm.api.values import StageState
from gkm.operator.counting import NodeView

_ON_THE_WAY = (StageState.PENDING, StageState.STAGING)


@dataclass(frozen=True, slots=True)
class Tally:
    """What the nodes together say of one cache."""

    counts: Counts
    staged: int
    """Nodes that have the newest digest."""
    waiting: int
    """Nodes that are on their way to it."""
    needed: frozenset[str]
    """Older digests that some node still needs."""
    last_error: LastError | None
    """The latest failure that a node reports of the newest digest."""

    @property
    def in_use(self) -> bool:
        """Whether any pod has the cache mounted warm."""
        return self.counts.pod_running_cnt > 0


def tally(views: Iterable[NodeView], newest: str | None, *, deleting: bool = False) -> Tally:
    """Fold `views`; `newest` is the digest that nodes are to have, None where there is none.

    A node whose newest digest failed counts under errors also while it serves an older one. Cold pods have
    nothing mounted of the cache, so they are in no count.
    """
    views = [view for view in views if any(_has(report) for report in view.digests.values())]
    newest_of = [view.digests.get(newest) if newest else None for view in views]
    warm = [sum(_warm(report) for report in view.digests.values()) for view in views]
    current = sum(_warm(report) for report in newest_of if report)
    staged = [any(report.state == StageState.STAGED for report in view.digests.values()) for view in views]
    failed = [report for report in newest_of if report and report.state == StageState.FAILED]
    running = sum(warm)
    return Tally(
        counts=Counts(
            node_cnt=len(views),
            node_in_use_cnt=sum(pods > 0 for pods in warm),
            node_not_in_use_cnt=sum(has and not pods for has, pods in zip(staged, warm, strict=True)),
            node_error_cnt=len(failed),
            pod_running_cnt=running,
            pod_deleting_cnt=running if deleting else 0,
            pod_outdated_cnt=0 if deleting else running - current,
        ),
        staged=sum(report is not None and report.state == StageState.STAGED for report in newest_of),
        waiting=sum(report is not None and report.state in _ON_THE_WAY for report in newest_of),
        needed=frozenset(
            digest
            for view in views
            for digest, report in view.digests.items()
            if digest != newest and _is_needed(report, view.digests.get(newest) if newest else None)
        ),
        last_error=max(
            (report.last_error for report in failed if report.last_error),
            key=lambda error: error.time,
            default=None,
        ),
    )


def _has(report: DigestReport) -> bool:
    """Whether the node has, wants or uses anything of the digest: all but a known no."""
    return report.state != StageState.INCOMPATIBLE or _warm(report) > 0


def _warm(report: DigestReport) -> int:
    return sum(not pod.cold for pod in report.pods or ())


def _is_needed(report: DigestReport, newest: DigestReport | None) -> bool:
    """Whether a node still needs an older digest: pods have it, or get it until the newest is staged there."""
    if _warm(report):
        return True
    replaced = newest is not None and newest.state in (StageState.STAGED, StageState.INCOMPATIBLE)
    return report.state == StageState.STAGED and not replaced
