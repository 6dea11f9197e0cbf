"""The blocking half of the mount machine: finding out how a target stands, and changing it. Run in threads."""

import contextlib
import errno
import logging
import os
import stat
from dataclasses import replace
from pathlib import Path

from gkm.csi.describe import with_limit
from gkm.csi.errors import InvalidRequestError
from gkm.csi.plan import Found, StartPlan, plan_start
from gkm.store import host
from gkm.store.claims import is_owned
from gkm.store.errors import MountError, StoreError, StoreFullError
from gkm.store.host import HostedView, Wish
from gkm.store.journal import current_boot
from gkm.store.journal_memory import JournalMemory
from gkm.store.linux import mountinfo
from gkm.store.linux.mountpoint import is_mount_point
from gkm.store.memory import is_roomier, memory_bounds
from gkm.store.mode import Mode
from gkm.store.overlay import unmount
from gkm.store.store import Store

_log = logging.getLogger(__name__)
_STACKED = 16
"""How many mounts one may be under at a target; more than one is nothing that we make."""


class Views:
    """The views of one driver: those of `store` below `place`."""

    def __init__(self, store: Store, place: Path) -> None:
        self.store = store
        self.place = place
        self._journals = JournalMemory()
        self._published: dict[str, Path] = {}
        """By target, the directory of the live view that was seen last: where to look first."""

    def prepare(self) -> None:
        """Make `place`, so that only root may enter. Raises `OSError`."""
        self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.place.chmod(0o700)
        # Kept without links, as the kernel shows it: mounts are compared by path.
        self.place = self.place.resolve()

    def find(self, target: Path) -> Found:
        """How `target` stands; call it only while nothing is changed there. Raises `OSError`."""
        views = [view for view in self.all() if view.journal.target == str(target)]
        return Found(mounted=is_mount_point(target), views=views)

    def published(self, target: Path) -> HostedView | None:
        """The live view whose target it is, whether or not it is mounted. Raises `OSError`.

        Kubelet asks again and again about each: so that one journal is looked at, and all only where it is no longer
        the one.
        """
        directory = self._published.get(str(target))
        if directory is not None:
            with contextlib.suppress(StoreError):
                journal = self._journals.read(directory)
                if journal is not None and journal.state == "live":
                    return HostedView(directory, journal)
        return next(iter(self.find(target).live), None)

    def all(self) -> list[HostedView]:
        """Every view, those being made at this moment too. Raises `OSError`.

        Whether one is being made is not asked of its lock: a child that was just forked holds every lock of ours
        until it executes its program.
        """
        views = host.hosted_views(self.store.layout, self.place, self._journals.read)
        self._journals.keep({view.directory for view in views})
        self._published = {
            view.journal.target: view.directory for view in views if view.journal.state == "live"
        }
        return views

    def start_plan(self) -> StartPlan:
        """What to do with what an earlier agent left. Raises `OSError`."""
        mounted = frozenset(entry.target for entry in mountinfo.mounts())
        # An agent that is about to end may still be making one.
        return plan_start([v for v in self.all() if not is_owned(v.directory)], mounted, current_boot())

    def make(self, wish: Wish) -> HostedView:
        """Mount a fresh view: a copy where the kernel refuses an overlay, and one in memory where a disk has no room
        and there is no tree to be mounted. Raises as `gkm.store.host.host`.
        """
        if wish.tree is not None:
            return self._make(wish)
        try:
            if not is_roomier(wish.bounds, self.place):
                return self._make(wish)
            why = f"too little is left on the disk of {self.place}"
        except StoreFullError as error:
            why = str(error)
        _log.warning("%s gets a directory in memory: %s", wish.target, why)
        bounds = memory_bounds(wish.bounds)
        notes = with_limit(wish.notes, 0)  # it takes nothing of the disk, which the others share
        return self._make(replace(wish, in_memory=True, bounds=bounds, notes=notes))

    def _make(self, wish: Wish) -> HostedView:
        try:
            return host.host(self.store, wish)
        except MountError as error:
            if wish.mode is Mode.COPY:
                raise
            _log.warning("%s gets a copy: %s", wish.target, error)
            return host.host(self.store, replace(wish, mode=Mode.COPY))

    def unmount(self, target: Path, *, lazily: bool) -> None:
        """Take what is mounted at `target` away. Raises `MountBusyError`, `MountError`."""
        for _ in range(_STACKED):
            if not is_mount_point(target):
                return
            unmount(str(target), lazily=lazily)
        raise MountError(f"{target} is still mounted after {_STACKED} unmounts")

    def remove(self, target: Path) -> None:
        """Remove the directory `target`, of which nothing is mounted any more.

        Raises:
            MountError: something else than an empty directory is there.
        """
        try:
            target.rmdir()
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno == errno.ENOTEMPTY:
                raise MountError(
                    f"{target} is not mounted and not empty: look what it holds, and empty it"
                ) from error
            raise MountError(f"cannot remove {target}: {error.strerror}") from error

    def mark(self, view: HostedView, *, detached: bool) -> HostedView:
        """Write down that `view` is gone from its target. Raises `OSError`."""
        return host.mark(view, "detached" if detached else "ended")

    def drop(self, view: HostedView) -> None:
        """Delete the files of an ended view. Raises `MountError`, `OSError`."""
        host.drop(self.store.layout, view)

    def drop_strays(self) -> None:
        """Delete what lies at `place` without a journal. Raises `MountError`, `OSError`."""
        for path in host.strays(self.store.layout, self.place):
            host.drop_place(path)


def resolve_target(target: Path) -> Path:
    """`target` as the kernel shows it: kubelet's root may be reached through a link, the target itself not.

    Raises:
        InvalidRequestError: it is a link, or a file.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if not stat.S_ISDIR(target.lstat().st_mode):
            raise InvalidRequestError(f"{target} is not a directory: remove it")
    return Path(os.path.realpath(target.parent)) / target.name
