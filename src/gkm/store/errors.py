"""What can go wrong in the store, a class for each thing a caller treats differently."""

import errno
from pathlib import Path

from gkm.base.errors import GKMError, UsageError


class StoreError(GKMError):
    """The store's directory failed: permissions, a full disk, a file that was damaged."""


class NotAStoreError(UsageError):
    """The directory holds something else, or a store of another version; nothing in it was touched."""

    reason = "NotAStore"


class StoreFullError(StoreError):
    """The disk, or the quota, of the store is full. What was half-made is gone again."""


class NotACacheImageError(UsageError):
    """The image holds no file of a kernel cache: it is some other image."""

    reason = "NotACacheImage"


class TreeMissingError(StoreError):
    """The sealed tree is not in this store, or garbage collection took it meanwhile."""


class TreeDamagedError(StoreError):
    """What the store wrote about a sealed tree, or a file of it, is gone or cannot be read as what it was."""


class LayerTooLargeError(StoreError):
    """A cache holds so many paths that rewriting them takes more than is allowed for its size."""


class MountError(StoreError):
    """A mount could not be made or undone; the kernel's words are in the message."""


class MountBusyError(MountError):
    """A process still uses the mount (EBUSY): try again once it has ended."""


class TargetError(UsageError):
    """A cache cannot be mounted at this path: not a directory, not empty, cannot be made."""

    reason = "InvalidTarget"


class SessionError(StoreError):
    """The process that supervises a command failed; the command may not have run."""


class CommandError(UsageError):
    """A command could not be started. `exit_status` is what env(1) and shells exit with in this case."""

    exit_status = 126


class CommandNotFoundError(CommandError):
    """No program of this name exists."""

    reason = "CommandNotFound"
    exit_status = 127


class CommandNotExecutableError(CommandError):
    """The program exists but could not be executed."""

    reason = "CommandNotExecutable"


def is_full(error: OSError) -> bool:
    """Whether `error` says that a disk, or a quota, has no room: neither bytes nor inodes, it may be."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT}


def disk_error(error: OSError, doing: str, where: Path) -> StoreError:
    """The store's error for an `OSError` met while `doing` something below `where`."""
    if is_full(error):
        return StoreFullError(
            f"the disk of {where} is full while {doing}: free space there, remove unused trees with"
            " `gkm store gc`, or choose another store with --store or GKM_STORE"
        )
    return StoreError(f"{doing} below {where} failed: {error}")
