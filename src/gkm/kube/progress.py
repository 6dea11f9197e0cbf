"""What a reflector asks next, and how long it waits before: pure decisions, no I/O.

The cycle: list, then watch from the version reached, for as long as the server has history. Lists come in two
forms: an ordinary list, and a watch that begins with what there is (WatchList, KEP-3157). Where one does not
get through, the other is tried next. The rules and why:

* The first list takes any state the server has at hand (`resourceVersion=0`), later ones nothing older than
  what was seen, and only if that fails too, the newest: reads of the newest go to etcd, and thousands of
  clients that relist there at once take a cluster down (kubernetes/kubernetes#86430).
* Never a list by the clock. Only lost history (410) makes one.
* No failure is final; a series of them backs off, and only the watch itself making progress ends the series.
  A list that succeeds is no such progress, or a server whose watches always fail would be listed in a tight
  loop.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from gkm.base.backoff import Backoff
from gkm.kube.errors import (
    CutListError,
    ExpiredError,
    FutureVersionError,
    InvalidError,
    StreamingUnsupportedError,
)


class Mode(Enum):
    """The next request."""

    LIST = "list"
    STREAM = "streaming list, which goes on as a watch"
    WATCH = "watch from the last version seen"


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations in seconds.

    `read_timeout`: how long a watch may be silent; the server sends a bookmark about once a minute.
    `watch_shortest`, `watch_longest`: the server ends a watch after a random time between them, so that
    thousands of clients do not reconnect in step. `hasty`: a watch that ended sooner without a word counts as
    failed. `start_jitter`: a random wait up to this before the first request.
    """

    read_timeout: float = 90.0
    watch_shortest: float = 300.0
    watch_longest: float = 600.0
    hasty: float = 1.0
    start_jitter: float = 0.0
    backoff: Backoff = field(default_factory=Backoff)


class Progress:
    """Where one reflector stands. `streaming`: try a streaming list first. `random` gives numbers in
    [0, 1)."""

    def __init__(
        self, timing: Timing, *, streaming: bool = False, random: Callable[[], float] = random.random
    ) -> None:
        self._timing = timing
        self._random = random
        self._streaming = streaming
        self._paged = True
        self._current = False
        self._list_at = "0"
        self._lively = False
        self.version = ""
        self.failures = 0

    @property
    def mode(self) -> Mode:
        """What to request next."""
        if self._current:
            return Mode.WATCH
        return Mode.STREAM if self._streaming else Mode.LIST

    @property
    def in_pages(self) -> bool:
        """Whether a list is asked for in pages.

        Not if its snapshot expired between two of them. Nor if it names a version: then the API server's
        watch cache has it all, but would ask etcd for every page after the first once that version's
        snapshot is gone. (With `0` it sends everything whatever the limit; a kind without a cache obeys it.)
        """
        return self._paged and self._list_at in ("", "0")

    def query(self) -> dict[str, str]:
        """The query parameters of the next request, less selectors and `watch` itself."""
        self._lively = False
        at = {"resourceVersion": self._list_at} if self._list_at else {}
        if self.mode is Mode.LIST:
            return (
                {"resourceVersion": self._list_at, "resourceVersionMatch": "NotOlderThan"}
                if self._list_at
                else {}
            )
        span = self._timing.watch_longest - self._timing.watch_shortest
        query = {
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, round(self._timing.watch_shortest + span * self._random()))),
        }
        if self.mode is Mode.WATCH:
            return {**query, "resourceVersion": self.version}
        # sendInitialEvents demands resourceVersionMatch (API concepts, "Streaming lists").
        return {**query, **at, "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}

    def listed(self, version: str) -> None:
        """The list is complete; the store is as new as `version`."""
        self._current, self._paged = True, True
        self.version = self._list_at = version

    def saw(self, version: str) -> None:
        """The watch delivered an event or bookmark at `version` (an empty one is no place to go on from)."""
        if self._current and version:
            self.version = self._list_at = version
            self.failures = 0
            self._lively = True

    def closed(self, lived: float) -> float:
        """The server ended the watch in the ordinary way after `lived` seconds; seconds to wait.

        In the middle of the initial events that is a failure, and a reason for an ordinary list: this server
        does not stream lists, or not in the time a watch has.
        """
        if not self._current:
            self._streaming = False
            return self._again()
        if not self._lively and lived < self._timing.hasty:
            return self._again()
        self.failures = 0
        return 0.0

    def failed(self, error: Exception) -> float:
        """The request or its stream failed; seconds to wait before the next one."""
        first = self.failures == 0
        match error, self.mode:
            case FutureVersionError(), _:
                # Its storage was restored from a backup: what we saw may never have been.
                self._current, self._list_at = False, ""
            case ExpiredError(), Mode.WATCH:
                self._current = False
                self._again()
                # Waiting would only widen the gap; but a second time in a row is no longer an accident.
                return 0.0 if first else self._wait()
            case CutListError(), Mode.LIST:
                # It may be too long for the time that a request has; a watch has more.
                self._streaming = True
            case ExpiredError(), Mode.LIST:
                # Either the snapshot expired between pages, or the version we named is unknown.
                self._paged, self._list_at = False, ""
            case ExpiredError(), _:
                self._list_at = ""
            case ((InvalidError() | StreamingUnsupportedError()), Mode.STREAM):
                self._streaming = False
                self._again()
                return 0.0 if first else self._wait()
            case InvalidError(), _:
                # The one thing in the request that comes from outside is the version.
                self._current, self._list_at = False, ""
            case _:
                pass
        return self._again()

    def _again(self) -> float:
        self.failures += 1
        return self._wait()

    def _wait(self) -> float:
        return self._timing.backoff.delay(self.failures)
