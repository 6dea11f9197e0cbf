"""How long work tells whoever watches how far it is; drawing is not this room's business."""

from typing import Protocol


class Progress(Protocol):
    """Told about pieces of work as they move. Calls come from the event loop's thread and must not block."""

    def start(self, name: str, total: int) -> None:
        """Work on `name` begins, or begins anew from nothing; `total` bytes are expected."""

    def advance(self, name: str, n: int) -> None:
        """`n` more bytes of `name` are done."""

    def finish(self, name: str) -> None:
        """`name` is done, or was there already."""


class NoProgress:
    """A `Progress` for when nobody watches."""

    def start(self, name: str, total: int) -> None:
        """Nothing to tell."""

    def advance(self, name: str, n: int) -> None:
        """Nothing to tell."""

    def finish(self, name: str) -> None:
        """Nothing to tell."""
