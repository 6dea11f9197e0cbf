"""One overlay mount: its options, making it and undoing it (Linux's filesystems/overlayfs.rst)."""

import errno
import os
from collections.abc import Sequence
from typing import NamedTuple

from gkm.store.errors import MountBusyError, MountError
from gkm.store.linux import mountinfo, syscalls

_PAGE = 4096
_DEVICE = "gkm"
"""What mountinfo shows as the source, for people who look."""


class Overlay(NamedTuple):
    """The directories of a mount. Absolute paths; no `upper` or `work` is ever used for two mounts."""

    target: str
    lowers: Sequence[str]
    """Top first."""
    upper: str
    work: str


def overlay_options(overlay: Overlay, *, user: bool, context: str | None = None) -> str:
    """The option text of mount(2).

    ``volatile``: no sync of the whole filesystem at unmount; an upper is never mounted again after a crash.
    ``userxattr`` (`user`): overlay's own marks in ``user.*``, which is all that a user namespace may write.
    ``metacopy=off``, where a kernel's default may be on: every file in the upper holds its own bytes, so the
    upper can be counted and captured without the mount. ``context``: the SELinux label that all files show.
    """
    words = [
        "lowerdir=" + ":".join(_escape(path, ",:") for path in overlay.lowers),
        "upperdir=" + _escape(overlay.upper, ","),
        "workdir=" + _escape(overlay.work, ","),
        "volatile",
        "userxattr" if user else "metacopy=off",  # userxattr implies metacopy=off and excludes naming it
    ]
    if context is not None:
        words.append(f'context="{context}"')
    return ",".join(words)


def mount_overlay(
    overlay: Overlay, *, user: bool, read_only: bool = False, context: str | None = None
) -> None:
    """Mount in the caller's mount namespace: ``nosuid,nodev``, but executable (caches hold shared objects).

    Raises:
        MountError: the kernel refused, or the paths are too long for one page of options.
    """
    options = overlay_options(overlay, user=user, context=context)
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | (syscalls.MS_RDONLY if read_only else 0)
    if len(os.fsencode(options)) >= _PAGE:
        raise MountError(
            f"the paths of this mount need {len(options)} bytes, the kernel takes {_PAGE}:"
            " use a store with a shorter path"
        )
    try:
        syscalls.mount(_DEVICE, overlay.target, "overlay", flags, options)
    except OSError as error:
        raise MountError(f"overlay at {overlay.target}: {error.strerror}; `dmesg` may say more") from error


def unmount(target: str, *, lazily: bool = False) -> None:
    """Undo the mount at `target`; one that is gone is no error.

    Raises:
        MountBusyError: a process still uses it, and `lazily` does not allow to leave it to its last user.
        MountError: the kernel refused for another reason.
    """
    try:
        syscalls.umount(target, syscalls.MNT_DETACH if lazily else 0)
    except OSError as error:
        if error.errno in {errno.EINVAL, errno.ENOENT}:
            return
        if error.errno == errno.EBUSY:
            raise MountBusyError(f"a process still uses {target}: try again when it has ended") from error
        raise MountError(f"unmounting {target}: {error.strerror}") from error


def is_mounted(target: str, upper: str, seen: Sequence[mountinfo.MountEntry] | None = None) -> bool:
    """Whether the mount seen at `target` is the one with this `upper`, in the caller's mount namespace.

    `seen` saves reading the mounts once more.
    """
    wanted = f"upperdir={upper},"
    for entry in reversed(mountinfo.mounts() if seen is None else seen):
        if entry.target == target:
            return entry.fstype == "overlay" and wanted in f"{entry.options},"
    return False


def _escape(path: str, separators: str) -> str:
    """Overlay reads a backslash as "take the next character as it is"."""
    return "".join(f"\\{char}" if char in f"\\{separators}" else char for char in path)
