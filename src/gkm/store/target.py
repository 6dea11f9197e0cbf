"""The path at which a view appears: checked, made if needed, and taken away again."""

import contextlib
import os
import shutil
from pathlib import Path

from gkm.store.errors import TargetError
from gkm.store.mode import Mode


def resolve_target(target: Path, store_root: Path) -> Path:
    """`target` as an absolute path without links: the kernel and the relocated files must name it alike.

    Raises:
        TargetError: it would cover the store, or lies inside it.
    """
    resolved = Path(os.path.realpath(target))
    if store_root.is_relative_to(resolved) or resolved.is_relative_to(store_root):
        raise TargetError(f"{resolved} and the store {store_root} contain each other: mount elsewhere")
    return resolved


def check_target(target: Path, mode: Mode) -> None:
    """Raise `TargetError` unless a view of `mode` can appear at `target`; makes nothing."""
    if not os.path.lexists(target):
        return
    if not target.is_dir():
        raise TargetError(f"{target} is not a directory: a cache can be mounted only on one")
    if mode is Mode.COPY and any(target.iterdir()):
        raise TargetError(
            f"{target} is not empty and cannot be covered here (mode copy): empty it, or mount elsewhere"
        )


def missing_directories(target: Path) -> tuple[Path, ...]:
    """The directories that have to be made for `target` to exist, outermost first."""
    missing = []
    path = target
    while not path.exists():
        missing.append(path)
        path = path.parent
    return tuple(reversed(missing))


def make_directories(directories: tuple[Path, ...]) -> None:
    """Make them in order.

    Raises:
        TargetError: one cannot be made; those before it are gone again.
    """
    for position, path in enumerate(directories):
        try:
            path.mkdir()
        except OSError as error:
            remove_directories(directories[:position])
            raise TargetError(
                f"cannot make {path}: {error.strerror}; make it yourself, or mount elsewhere"
            ) from error


def remove_directories(directories: tuple[Path, ...]) -> None:
    """Remove those that are empty, innermost first; somebody may have begun to use the others."""
    for path in reversed(directories):
        with contextlib.suppress(OSError):
            path.rmdir()


def empty_directory(path: Path) -> None:
    """Delete what is in `path`, a plain copy that nobody needs any more; the directory stays."""
    with contextlib.suppress(FileNotFoundError), os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    Path(entry.path).unlink()
