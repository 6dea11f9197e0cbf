"""Files and directories that are either whole or absent, also after a power cut.

The pattern nearly everywhere in GKM: write beside the target, fsync, rename, fsync the parent.
"""

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path


def sync_directory(path: Path) -> None:
    """Make renames and creations inside `path` durable (fsync(2) on the directory)."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomic(path: Path, data: bytes, *, mode: int = 0o644, durable: bool = True) -> None:
    """Replace the file at `path` with `data`: readers see the old bytes or the new ones, never a mixture.

    Without `durable` this holds until a power cut, after which the file may also be absent or empty: for what is
    worth nothing after a reboot, since a sync waits for whatever others have to write on that disk. The parent
    directory must exist. Raises `OSError` and leaves no temporary file behind.
    """
    fd, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_directory(path.parent)


def remove_tree(path: Path) -> None:
    """Delete `path` and all below it, read-only directories included; a path that is gone is no error.

    Links are removed, never followed. Raises `OSError` for anything that stays.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
            return
        shutil.rmtree(path, onerror=_mend)


def _mend(
    _: Callable[..., object], name: str, failure: tuple[type[BaseException], BaseException, object]
) -> None:
    """`shutil.rmtree` failed at `name`: open what its owner may open, and try once more."""
    error = failure[1]
    if isinstance(error, FileNotFoundError):
        return
    if not isinstance(error, PermissionError):
        raise error
    path = Path(name)
    path.parent.chmod(0o700)
    if stat.S_ISDIR(path.lstat().st_mode):
        path.chmod(0o700)
        shutil.rmtree(path)
    else:
        path.unlink()
