"""The mount machine: what is to be done for a call, from what is mounted and what the journals say. Pure.

A target is in one of four states, whatever was interrupted before:

========== ========= ====================================================================
mounted    journal   it means
========== ========= ====================================================================
no         no        nothing is there
no         live      making was interrupted, or the machine was booted again
yes        live      published
yes        no        published, and the journal was lost
========== ========= ====================================================================

Journals that are no longer live belong to views that are gone from their targets; they count as none.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gkm.store.host import HostedView


class Found(NamedTuple):
    """A target as it is."""

    mounted: bool
    views: Sequence[HostedView]
    """All that name it as their target, newest state each."""

    @property
    def live(self) -> tuple[HostedView, ...]:
        """Those that have not been ended."""
        return tuple(view for view in self.views if view.journal.state == "live")


class PublishPlan(NamedTuple):
    """In this order."""

    end: tuple[HostedView, ...]
    """Leftovers: never used again, not even their uppers."""
    make: bool


class UnpublishPlan(NamedTuple):
    """In this order; the target's directory is removed in between."""

    unmount: bool
    end: tuple[HostedView, ...]


class StartPlan(NamedTuple):
    """What a starting agent does with all views."""

    restored: tuple[HostedView, ...]
    """Their pods run on."""
    end: tuple[HostedView, ...]
    """Live, but not mounted: interrupted, or of an earlier boot."""
    drop: tuple[HostedView, ...]
    """Gone from their targets for good: only their files are left."""


def plan_publish(found: Found) -> PublishPlan:
    """A mount at the target is the pod's, running perhaps: kubelet publishes again after its own restart."""
    if found.mounted:
        return PublishPlan((), make=False)
    return PublishPlan(found.live, make=True)


def plan_unpublish(found: Found) -> UnpublishPlan:
    """Whatever is there goes; with nothing there, there is nothing to do."""
    return UnpublishPlan(found.mounted, found.live)


def plan_start(views: Sequence[HostedView], mounted: frozenset[str], boot: str) -> StartPlan:
    """Sort `views`; `mounted` are the targets at which something is, `boot` is this boot's id."""
    live = [view for view in views if view.journal.state == "live"]
    up = tuple(v for v in live if v.journal.target in mounted and v.journal.boot_id == boot)
    return StartPlan(
        restored=up,
        end=tuple(view for view in live if view not in up),
        drop=tuple(view for view in views if is_droppable(view, boot)),
    )


def is_droppable(view: HostedView, boot: str) -> bool:
    """Whether the files of `view` may go: a detached one may have a user until the next boot."""
    state = view.journal.state
    return state == "ended" or (state == "detached" and view.journal.boot_id != boot)
