"""How the agent tells people what became of a cache on this node: Events, made by whoever has a recorder."""

from typing import Protocol

from gkm.api.grant import GKMGrant

STAGED = "Staged"
"""The reason of the Event that ends a row of failures; theirs are the errors' own words."""


class Tell(Protocol):
    """Tells something about the cache of `grant`. Never waits, never fails; repeats are aggregated."""

    def __call__(self, grant: GKMGrant, reason: str, message: str, *, warning: bool) -> None:
        """`reason` is a stable word, `message` for people and the same while the matter is the same."""


def nobody(grant: GKMGrant, reason: str, message: str, *, warning: bool) -> None:
    """A `Tell` that keeps it to itself."""
    del grant, reason, message, warning
