"""Attaching a prepared view in the caller's mount namespace, and detaching it.

For a service that mounts for others (root), and for mode ``copy``. A command of an ordinary user gets its
view in a namespace of its own: `gkm.store.session`.
"""

from gkm.store.errors import MountError, disk_error
from gkm.store.gather import gather
from gkm.store.mode import Mode
from gkm.store.overlay import is_mounted, mount_overlay, unmount
from gkm.store.plain_copy import fill_view
from gkm.store.prepared import PreparedMount


def attach(prepared: PreparedMount) -> None:
    """Make the view appear at `prepared.target`. Doing it again changes nothing.

    Raises:
        MountError: the kernel refused, or the mode needs a namespace of its own.
        StoreError: the disk failed (mode ``copy``).
    """
    if prepared.mode is Mode.COPY:
        try:
            fill_view(prepared.lowers, prepared.target)
        except OSError as error:
            raise disk_error(error, "copying a tree", prepared.target) from error
    elif prepared.mode is Mode.USER_OVERLAY:
        raise MountError("a user-overlay exists only inside the command's own namespace: use run_in_view")
    elif not is_mounted(str(prepared.target), str(prepared.upper)):
        mount_overlay(prepared.overlay, user=False)


def detach(prepared: PreparedMount, *, lazily: bool = False) -> None:
    """Take the view away; `prepared.upper` then holds what was added or changed, and nothing else.

    A view that is not attached is left as it is. `lazily` leaves the mount to its last user.

    Raises:
        MountBusyError: a process still uses it.
        MountError: the kernel refused for another reason.
    """
    if prepared.mode is Mode.OVERLAY and is_mounted(str(prepared.target), str(prepared.upper)):
        unmount(str(prepared.target), lazily=lazily)
    take_stock(prepared)


def take_stock(prepared: PreparedMount) -> None:
    """Bring what a workload made into `prepared.upper`, where it is in the other modes anyway.

    Raises:
        StoreError: the disk failed.
    """
    if prepared.mode is Mode.COPY:
        try:
            gather(prepared.target, prepared.lowers, prepared.upper)
        except OSError as error:
            raise disk_error(error, "taking stock after the workload", prepared.directory) from error
