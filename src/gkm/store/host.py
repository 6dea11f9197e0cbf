"""Views that a service makes for workloads it does not start, and that outlive the service.

The journal stands in the store, where it keeps the tree from being collected; everything that is mounted lies
below `place`, a directory of the caller's choice, since mounts elsewhere may not be seen by the workload::

    STORE/mounts/ID/journal.json    written first, thrown away last
    PLACE/ID/image                  the bounded filesystem, where one can be had
    PLACE/ID/fs/                    where it is mounted, else a plain directory
    PLACE/ID/fs/empty/              what lies below the upper of a view that starts cold
    PLACE/ID/fs/upper, work         mode overlay
    PLACE/ID/fs/view                mode copy: the copy itself, bound to the target

Where the disk has no room even for the journal of a view that starts cold, ``PLACE/ID`` is a small filesystem in
memory that holds the journal as well (`gkm.store.memory`).

Each function may be killed at any step: what the journal says, what is mounted and what lies at `place` suffice
to go on (`drop`), and doing anything again changes nothing. After a power cut nothing is mounted, and what lies in
``STORE/mounts`` and at `place` goes with its journal or without: so no journal is synced, which on a disk that others
write to takes as long as they do (0.4 s seen), four times for each pod.
"""

import contextlib
import errno
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gkm.store.bounded import Bounds, UnboundedError, mount_bounded, unmount_all
from gkm.store.claims import Claim, claim, is_owned
from gkm.store.errors import MountError, StoreError, disk_error, is_full
from gkm.store.journal import Journal, current_boot, read_journal, this_process, write_journal
from gkm.store.layers import Layer, layers_of, mark_layer_used
from gkm.store.layout import Layout
from gkm.store.linux import mountinfo, syscalls
from gkm.store.locks import locked
from gkm.store.memory import claim_in_memory
from gkm.store.mode import Mode
from gkm.store.overlay import Overlay, mount_overlay
from gkm.store.plain_copy import fill_view
from gkm.store.relocation import check_present
from gkm.store.sealed import SealedTree
from gkm.store.trash import throw_away
from gkm.store.usetime import mark_used

if TYPE_CHECKING:
    from gkm.store.store import Store

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wish:
    """What view is wanted."""

    tree: SealedTree | None
    """None: an empty view that starts cold."""
    target: Path
    """Absolute, without links; it and its parents are made."""
    place: Path
    """Below which the view's mounts and uppers lie; the same one for all views of a service."""
    mode: Mode
    """``overlay``, or ``copy`` for a filesystem that can be idmapped."""
    bounds: Bounds
    layer: Layer | None = None
    """The tree's relocation layer for the path at which the workload will see the view; None leaves the image's
    paths."""
    read_only: bool = False
    context: str | None = None
    """The SELinux label of all its files, where SELinux is on."""
    notes: Mapping[str, str] = field(default_factory=dict)
    in_memory: bool = False
    """Nothing of it is to lie on a disk; only without a `tree`, whose use has to be written down in the store."""


@dataclass(frozen=True, slots=True)
class HostedView:
    """A view as its journal tells of it."""

    directory: Path
    journal: Journal

    @property
    def target(self) -> Path:
        """Where the workload sees it."""
        return Path(self.journal.target)

    @property
    def private(self) -> Path:
        """The filesystem that holds what the workload adds."""
        return self.journal.private_directory(self.directory)

    @property
    def upper(self) -> Path:
        """What the workload added or changed; in mode ``copy`` beside what it found. Hostile content."""
        return self.private / ("view" if self.journal.mode is Mode.COPY else "upper")

    @property
    def in_memory(self) -> bool:
        """Whether no disk holds anything of it."""
        return self.directory == self.private.parent

    @property
    def bounded(self) -> bool:
        """Whether `upper` has a limit of its own."""
        return self.in_memory or (self.private.parent / "image").exists()


def host(store: "Store", wish: Wish) -> HostedView:
    """Make the view and mount it at its target.

    Raises:
        TreeMissingError: the tree, or its layer, was collected meanwhile.
        MountError: the kernel refused.
        StoreFullError, StoreError: the disk failed. After any error nothing is left behind.
    """
    layout, tree = store.layout, wish.tree
    owned = _claim(layout, wish)
    journal = Journal(
        version=1,
        mode=wish.mode,
        target=str(wish.target),
        digest=None if tree is None else tree.digest,
        made_directories=(),
        persistent=True,
        owner=this_process(),
        boot_id=current_boot(),
        private=str(wish.place / owned.path.name / "fs"),
        layer=None if wish.layer is None else wish.layer.name,
        notes=dict(wish.notes),
    )
    view = HostedView(owned.path, journal)
    try:
        _write_journal(layout, view, wish)
        _write_files(view, wish)
        _mount(view, wish)
    except BaseException as error:
        with contextlib.suppress(OSError):
            wish.target.rmdir()
        drop(layout, view)
        if isinstance(error, OSError):
            raise disk_error(error, "preparing a mount", wish.place) from error
        raise
    finally:
        owned.close()
    return view


def _claim(layout: Layout, wish: Wish) -> Claim:
    assert wish.tree is None or not wish.in_memory
    where = wish.place if wish.in_memory else layout.root
    try:
        return claim_in_memory(wish.place, wish.bounds) if wish.in_memory else claim(layout, layout.mounts)
    except OSError as error:
        raise disk_error(error, "preparing a mount", where) from error


def hosted_views(
    layout: Layout, place: Path, read: Callable[[Path], Journal | None] = read_journal
) -> list[HostedView]:
    """The views below `place`, those being made at this moment too; one whose journal is damaged is not among
    them. `read` gives the journal in a view's directory. Raises `OSError`.
    """
    found = []
    on_disk = list(layout.mounts.iterdir())
    elsewhere = {path.name for path in on_disk}
    in_memory = [path for path in place.iterdir() if path.name not in elsewhere] if place.is_dir() else []
    for directory in (*on_disk, *in_memory):
        with contextlib.suppress(StoreError):
            journal = read(directory)
            # As text: this is asked of every view of the node, several times for each of a pod's.
            if journal is not None and journal.private == f"{place}/{directory.name}/fs":
                found.append(HostedView(directory, journal))
    return found


def mark(view: HostedView, state: str) -> HostedView:
    """Write down that `view` is gone from its target: ``ended`` or ``detached``, see `Journal.state`.

    On a full disk only what is returned says so: unmounting must not wait for room, and a journal that is live still
    but has nothing mounted at its target is taken for ended. Raises `OSError`.
    """
    assert state in {"ended", "detached"}
    journal = msgspec.structs.replace(view.journal, state=state)
    try:
        write_journal(view.directory, journal, durable=False)
    except OSError as error:
        if not is_full(error):
            raise
        _log.warning("that %s is %s is not written down: the disk is full", view.target, state)
    return HostedView(view.directory, journal)


def drop(layout: Layout, view: HostedView) -> None:
    """Delete all files of a view that is gone from its target. Raises `MountError`, `OSError`."""
    drop_place(view.private.parent)
    journal = view.journal
    if journal.digest is not None and journal.layer is not None:
        # It was of use until now: the next pod may come in a moment.
        with contextlib.suppress(FileNotFoundError):
            mark_layer_used(layers_of(layout.tree(journal.digest)) / journal.layer)
    throw_away(layout, view.directory)


def drop_place(directory: Path) -> None:
    """Delete ``PLACE/ID``, of which no journal may tell any more. Raises `MountError`, `OSError`."""
    unmount_all(directory)
    with contextlib.suppress(FileNotFoundError):
        # With the image everything hostile is gone; a plain directory is walked by descriptors, no link followed.
        shutil.rmtree(directory)


def strays(layout: Layout, place: Path) -> list[Path]:
    """Directories below `place` without a journal and without a mount that needs them. Raises `OSError`."""
    mounts = mountinfo.mounts()
    return [
        path
        for path in place.iterdir()
        if not (layout.mounts / path.name).exists() and not _is_told_of(path) and not _is_needed(path, mounts)
    ]


def _is_told_of(path: Path) -> bool:
    """Whether a journal in memory tells of ``PLACE/ID``, or one is about to."""
    return read_journal(path) is not None or is_owned(path)


def _is_needed(path: Path, mounts: tuple[mountinfo.MountEntry, ...]) -> bool:
    """Whether a mount elsewhere shows what lies in ``PLACE/ID``: as its upper, or as a copy bound to it."""
    devices = {entry.source for entry in mounts if Path(entry.target).is_relative_to(path)}
    elsewhere = [entry for entry in mounts if not Path(entry.target).is_relative_to(path)]
    return any(
        f"upperdir={path}/fs/upper," in f"{entry.options},"
        if entry.fstype == "overlay"
        else entry.source in devices
        for entry in elsewhere
    )


def _write_journal(layout: Layout, view: HostedView, wish: Wish) -> None:
    tree = wish.tree
    if tree is None:
        write_journal(view.directory, view.journal, durable=False)
        return
    # Under this lock collection cannot pass between the look at the tree and the journal that holds it.
    with locked(layout.digest_lock(tree.digest), shared=True):
        check_present(tree, wish.layer)
        write_journal(view.directory, view.journal, durable=False)
        mark_used(layout, tree.digest)


def _write_files(view: HostedView, wish: Wish) -> None:
    tree, private, bounds = wish.tree, view.private, wish.bounds
    if not wish.in_memory:
        private.parent.mkdir(mode=0o700, parents=True)
    private.mkdir(mode=0o700)
    if tree is not None and wish.mode is Mode.COPY:
        relocated = (0, 0) if wish.layer is None else (wish.layer.record.bytes, wish.layer.record.files)
        bounds = bounds.and_also(
            bytes=tree.bytes + relocated[0], files=2 * (tree.record.files + relocated[1])
        )
    if not wish.in_memory:
        with contextlib.suppress(UnboundedError):
            mount_bounded(private.parent / "image", private, bounds)
            private.chmod(0o700)
    view.upper.mkdir()
    view.upper.chmod(0o777)  # it decides who may write in the view's root: any uid
    if tree is None:
        _empty(view).mkdir()
    if wish.mode is Mode.COPY:
        _copy(view, wish)
    else:
        (private / "work").mkdir(mode=0o700)


def _copy(view: HostedView, wish: Wish) -> None:
    """Fill a view of mode ``copy``, and make sure that its bytes are kept.

    A sparse image takes bytes for which its disk has no room, and loses them in silence later (seen).
    """
    fd = os.open(view.private, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fill_view(_lowers(view, wish), view.upper, open_to_all=True)
        if view.bounded:
            # Opened before: errors of writing are told to descriptors that were there (syncfs(2)).
            syscalls.syncfs(fd)
    except OSError as error:
        room = os.statvfs(view.private.parent)
        # To a filesystem in an image a disk without room is a broken device: EIO, EROFS, or what comes of those.
        if view.bounded and wish.tree and room.f_bavail * room.f_frsize < wish.tree.bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(view.private.parent)) from error
        raise
    finally:
        os.close(fd)


def _mount(view: HostedView, wish: Wish) -> None:
    wish.target.mkdir(parents=True, exist_ok=True, mode=0o750)
    if wish.mode is Mode.COPY:
        _bind(view.upper, wish.target, read_only=wish.read_only)
        return
    overlay = Overlay(
        str(wish.target),
        tuple(map(str, _lowers(view, wish))),
        str(view.upper),
        str(view.private / "work"),
    )
    mount_overlay(overlay, user=False, read_only=wish.read_only, context=wish.context)


def _bind(source: Path, target: Path, *, read_only: bool) -> None:
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | (syscalls.MS_RDONLY if read_only else 0)
    try:
        # The first call takes no other flags (mount(2)), so they are set on the copy itself: its binding at the
        # target inherits them, and is never there without.
        syscalls.mount(str(source), source, None, syscalls.MS_BIND, "")
        syscalls.mount("none", source, None, syscalls.MS_BIND | syscalls.MS_REMOUNT | flags, "")
        syscalls.mount(str(source), target, None, syscalls.MS_BIND, "")
    except OSError as error:
        raise MountError(f"binding a copy to {target}: {error.strerror}") from error


def _empty(view: HostedView) -> Path:
    return view.private / "empty"


def _lowers(view: HostedView, wish: Wish) -> tuple[Path, ...]:
    if wish.tree is None:
        return (_empty(view),)
    return (*(() if wish.layer is None else wish.layer.lower_directories()), *wish.tree.lower_directories())
