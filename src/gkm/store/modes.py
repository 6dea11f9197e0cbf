"""Which modes work here: found out by trying."""

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gkm.store.errors import SessionError
from gkm.store.mode import Mode
from gkm.store.probe import try_modes


@dataclass(frozen=True, slots=True)
class ModeProbe:
    """What this process may do on one filesystem."""

    mode: Mode
    refusals: tuple[str, ...]
    """Why each better mode was refused, for people: ``overlay: mount: Operation not permitted``."""


_known: dict[Path, ModeProbe] = {}


def probe_modes(scratch: Path) -> ModeProbe:
    """Try each mode for real in the empty directory `scratch`, in processes of their own.

    Only a try tells: containers, kernels' settings, security modules and the filesystem below (overlay
    refuses another overlay or NFS as its upper) all have a say.

    Raises:
        SessionError: the trying process itself failed.
    """
    if threading.active_count() == 1:
        return ModeProbe(*try_modes(scratch))
    # Forking a process with threads copies locks that nobody will release.
    program = [sys.executable, "-P", "-m", "gkm.store.probe", str(scratch)]
    done = subprocess.run(program, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    try:
        return ModeProbe(*msgspec.json.decode(done.stdout, type=tuple[Mode, tuple[str, ...]]))
    except msgspec.DecodeError as error:
        text = done.stderr.decode(errors="replace").strip()
        raise SessionError(
            f"could not find out how to mount (exit status {done.returncode}): {text}"
        ) from error


def best_mode(root: Path, scratch: Callable[[], AbstractContextManager[Path]]) -> ModeProbe:
    """`probe_modes` in a directory of `scratch`, asked once in the life of this process for the store `root`."""
    if root not in _known:
        with scratch() as directory:
            _known[root] = probe_modes(directory)
    return _known[root]
