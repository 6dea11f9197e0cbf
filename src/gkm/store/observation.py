"""What is known of the files that were opened in a view, and how surely."""

from typing import Literal, NamedTuple, Protocol


class Observation(NamedTuple):
    """What was seen. Counts may be published only as far as `kind` allows."""

    kind: Literal["complete", "partial", "none"]
    reason: str | None = None
    """Why it is not complete: ``Overflow`` (events were lost), ``WatchLimit`` (more directories than
    fs.inotify.max_user_watches), ``Unwatched`` (a directory that could not be watched, say for its mode),
    ``Unplaced`` (an opened file could not be told from others), or why nothing could be observed."""
    opened: frozenset[str] = frozenset()
    """POSIX paths relative to the view, of files opened at least once; only of those that matter, where it was said
    which do. Directories are not among them."""


class Watch(Protocol):
    """An observation under way."""

    def fileno(self) -> int:
        """The descriptor to poll, -1 where there is none."""

    def drain(self) -> None:
        """Take in all that is queued; never blocks."""

    def so_far(self) -> Observation:
        """What was taken in until now."""

    def let_go(self) -> Observation:
        """Stop, and take in what is still queued: from now on nothing keeps the view from being unmounted."""

    def close(self) -> None:
        """Give back what the kernel holds for us, after `let_go`. With fanotify it waits until no processor looks at
        the mark any more: mostly a millisecond, on a busy machine a tenth of a second (seen)."""

    def finish(self) -> Observation:
        """`let_go` and `close`."""
