"""Which nodes count: those that exist, and are Ready or have not been otherwise for too long."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from gkm.api.node import DigestReport
from gkm.operator.objects import Node, Report


@dataclass(frozen=True, slots=True)
class NodeView:
    """What one node that counts reports of one cache."""

    node: str
    digests: Mapping[str, DigestReport]


@dataclass(frozen=True, slots=True)
class Views:
    """The reports that count at a moment, and the moment at which the next of them ceases to; None: never."""

    nodes: tuple[NodeView, ...]
    until: datetime | None


def counting(
    reports: Iterable[Report], nodes: Mapping[str, Node], cache: str, now: datetime, grace: timedelta
) -> Views:
    """What the nodes that count say of the cache named `cache`, sorted by node.

    A report counts only for the node that it is named after.
    """
    views: list[NodeView] = []
    until: datetime | None = None
    for report in reports:
        name, status = report.metadata.name or "", report.status
        node = nodes.get(name)
        digests = (status.caches or {}).get(cache) if status and status.node_name == name else None
        if node is None or not digests:
            continue
        ends = _not_ready_since(node)
        if ends is not None:
            ends += grace
            if ends <= now:
                continue
            until = min(until, ends) if until else ends
        views.append(NodeView(name, digests))
    return Views(tuple(sorted(views, key=lambda view: view.node)), until)


def readiness(node: Node) -> str | None:
    """The status of the node's Ready condition; None where kubelet never told one."""
    return next((c.status for c in node.status.conditions if c.type == "Ready"), None)


def _not_ready_since(node: Node) -> datetime | None:
    """Since when the node is not Ready; None while it is, and while it never said."""
    for condition in node.status.conditions:
        if condition.type == "Ready" and condition.status != "True" and condition.last_transition_time:
            return datetime.fromisoformat(condition.last_transition_time)
    return None
