"""What this node has and is doing, in memory; the disk and the API server can rebuild all of it.

Lives on the event loop and is changed there alone, so readers never see half a change.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from gkm.agent.plan import Failure
from gkm.api.status import LastError


@dataclass
class NodeState:
    """`on_change` hears of each change, before whoever waits in `changed`; `on_lost` of each staged digest whose
    tree was found gone: collected, or deleted by hand."""

    on_change: Callable[[], None] = lambda: None
    on_lost: Callable[[str], None] = lambda _: None
    staged: dict[str, int] = field(default_factory=dict)
    """Digests with a sealed tree, and its bytes."""
    layers: dict[str, int] = field(default_factory=dict)
    """Digests of trees with relocation layers, and their bytes."""
    staging: dict[str, int] = field(default_factory=dict)
    """Digests on their way, and the bytes promised to them."""
    moving: set[str] = field(default_factory=set)
    """Digests of which the registry has sent something in this attempt."""
    failures: dict[str, Failure] = field(default_factory=dict)
    errors: dict[str, LastError] = field(default_factory=dict)
    """Why a digest is not staged; gone once it is."""
    demanded: set[str] = field(default_factory=set)
    """UIDs of caches that a pod of this node asked for."""
    promised: dict[str, float] = field(default_factory=dict)
    """Digests that a pod was told to mount, and when (monotonic): not to be collected just now."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def changed_now(self) -> None:
        """Something that answers or reports show is another."""
        self.on_change()
        self.wake()

    def wake(self) -> None:
        """End the waits in `changed`: an answer may be another, though nothing here is."""
        # A fresh event for the next wait: who waits for this one is woken, even if it runs only later.
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()

    async def changed(self, timeout: float) -> None:
        """Return at the next change after the call, or after `timeout` seconds."""
        waiting = self._changed
        try:
            async with asyncio.timeout(timeout):
                await waiting.wait()
        except TimeoutError:
            return

    def begin(self, digest: str, size: int) -> None:
        """Staging of `digest` begins, for which `size` bytes are promised."""
        self.staging[digest] = size
        self.moving.discard(digest)
        self.changed_now()

    def succeed(self, digest: str, size: int) -> None:
        """`digest` is staged."""
        self.staging.pop(digest, None)
        self.failures.pop(digest, None)
        self.errors.pop(digest, None)
        self.staged[digest] = size
        self.changed_now()

    def fail(self, digest: str, failure: Failure, reason: str, message: str) -> None:
        """Staging of `digest` failed."""
        self.staging.pop(digest, None)
        self.failures[digest] = failure
        before = self.errors.get(digest)
        # The same failure once more is no news: a report is written for a change, not for an attempt.
        if before is None or (before.reason, before.message) != (reason, message):
            self.errors[digest] = LastError(reason=reason, message=message, time=datetime.now(UTC))
        self.changed_now()

    def abandon(self, digest: str) -> None:
        """Staging of `digest` was cut short: by us, not by a failure."""
        if self.staging.pop(digest, None) is not None:
            self.changed_now()

    def forget(self, digest: str) -> None:
        """Nobody wants `digest` here any more."""
        known = [book.pop(digest, None) for book in (self.failures, self.errors)]
        if any(entry is not None for entry in known):
            self.changed_now()

    def lose(self, digest: str) -> None:
        """The tree of `digest` is gone, or not to be used."""
        self.promised.pop(digest, None)
        self.layers.pop(digest, None)
        if self.staged.pop(digest, None) is not None:
            self.changed_now()

    @property
    def stored_bytes(self) -> int:
        """All that was staged, and what was made of it."""
        return sum(self.staged.values()) + sum(self.layers.values())

    def found(self, trees: dict[str, int]) -> None:
        """The trees that are really in the store."""
        if trees != self.staged:
            lost = self.staged.keys() - trees.keys()
            self.staged = dict(trees)
            self.changed_now()
            for digest in lost:
                self.on_lost(digest)
