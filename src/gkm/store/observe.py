"""Which files of a view were opened: hits are measured, not guessed.

`watch` takes the best means this process may use: one fanotify mark for the whole mount, else one inotify
watch for each directory. Create the watch after the mount and before the command, `drain` it whenever it is
readable, and `finish` it after the command and before unmounting: a queued event holds its file open.
"""

from collections.abc import Iterable
from pathlib import Path

from gkm.store.fanotify_watch import FanotifyWatch
from gkm.store.inotify_watch import InotifyWatch
from gkm.store.observation import Observation, Watch


class NoWatch:
    """Stands in where nothing can be observed, with the reason why."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def fileno(self) -> int:
        """Nothing to poll."""
        return -1

    def drain(self) -> None:
        """Nothing was queued."""

    def so_far(self) -> Observation:
        """The observation ``none``, with its reason."""
        return Observation("none", self._reason)

    def let_go(self) -> Observation:
        """The same."""
        return self.so_far()

    def close(self) -> None:
        """Nothing is held."""

    def finish(self) -> Observation:
        """The same."""
        return self.so_far()


def watch(view: Path, wanted: Iterable[str] = (), *, mounted: bool = True) -> Watch:
    """Start observing the view; of its files only those in `wanted` (relative paths), unless there are none.

    `mounted` says that a filesystem of its own stands at `view`; without one (mode ``copy``) a fanotify mark
    would listen to the whole disk, so inotify is taken.
    """
    refusals = []
    if mounted:
        try:
            return FanotifyWatch(view, wanted)
        except OSError as error:
            refusals.append(f"fanotify: {error.strerror}")
    try:
        return InotifyWatch(view, wanted)
    except OSError as error:
        refusals.append(f"inotify: {error.strerror}")
    return NoWatch("; ".join(refusals))
