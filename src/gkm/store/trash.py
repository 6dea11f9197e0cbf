"""Throwing directories away: one rename takes them out of sight, deleting follows.

On a full disk the rename may need a block that is not there, for one more name in the trash. What is to go is then
deleted where it stands, what tells of it first: records and journals lie beside the directories that they describe.
"""

import contextlib
import os
import secrets
import shutil
from pathlib import Path

from gkm.store.errors import is_full
from gkm.store.layout import Layout
from gkm.store.locks import trying


def throw_away(layout: Layout, path: Path) -> None:
    """Move `path` out of sight in one step, then delete it. A path that is gone is no error.

    What cannot be deleted stays in the trash for `empty_trash`. Raises `OSError` when it cannot be moved.
    """
    grave = layout.trash / secrets.token_hex(8)
    try:
        path.rename(grave)
    except FileNotFoundError:
        return
    except OSError as error:
        if not is_full(error):
            raise
        _delete_files(path)
        grave = path
    _delete(grave)


def empty_trash(layout: Layout) -> None:
    """Delete what earlier processes left in the trash, unless another process is at it."""
    graves = [path for path in layout.trash.iterdir() if path.name != ".lock"]
    if not graves:
        return  # the lock is a file, for which a full disk may have no room
    with trying(layout.trash / ".lock") as free:
        for path in graves if free else ():
            _delete(path)


def _delete_files(directory: Path) -> None:
    """Delete the files in `directory`, not what lies in directories below. Raises `OSError`."""
    for path in directory.iterdir():
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)


def _delete(path: Path) -> None:
    # Overlay leaves a work directory of mode 000 and commands may leave any mode: an ordinary user has to
    # give himself the right to list and empty each. Links are neither followed nor changed.
    if os.geteuid() != 0:
        _open_up(path)
    # Two processes may delete the same directory: what one finds gone must not stop it.
    shutil.rmtree(path, ignore_errors=True)


def _open_up(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.chmod(0o700)
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    _open_up(Path(entry.path))
