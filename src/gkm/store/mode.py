"""The ways to give a process a private view of a sealed tree, best first."""

from enum import StrEnum


class Mode(StrEnum):
    """How a view is made."""

    OVERLAY = "overlay"
    """overlayfs mounted by root: nothing is copied, opens are seen by fanotify."""
    USER_OVERLAY = "user-overlay"
    """overlayfs mounted by an ordinary user in a user namespace: nothing is copied, inotify."""
    COPY = "copy"
    """A plain copy of the tree, where overlayfs cannot be."""
