"""Entering the namespace in which a view of a given mode can be mounted. For a process with one thread."""

from gkm.store.errors import MountError
from gkm.store.linux.namespaces import enter_mount_namespace, enter_user_namespace
from gkm.store.mode import Mode
from gkm.store.overlay import Overlay, mount_overlay


def enter_and_mount(mode: Mode, overlay: Overlay) -> None:
    """Leave the caller's mount namespace and mount `overlay` in the new one; nothing for mode ``copy``.

    Raises:
        MountError: the kernel refused the namespace or the mount.
    """
    if mode is Mode.COPY:
        return
    try:
        if mode is Mode.OVERLAY:
            enter_mount_namespace()
        else:
            enter_user_namespace()
    except OSError as error:
        raise MountError(f"a namespace for {mode}: {error.strerror}") from error
    mount_overlay(overlay, user=mode is Mode.USER_OVERLAY)
