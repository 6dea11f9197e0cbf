"""Mode ``copy``, after the workload: what it made is taken from the view into the upper, as in other modes.

What lies in the view is hostile: directories are walked by descriptor, links never followed, only regular
files opened.
"""

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

_CHUNK = 1 << 20
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def gather(view: Path, lowers: Sequence[Path], upper: Path) -> None:
    """Copy into `upper` each regular file of `view` whose bytes or modification time differ from `lowers`' (top
    first). A new time alone says that the file was made again. Times and modes are kept. Files that cannot be
    read are left out; doing it again changes nothing. Raises `OSError`.
    """
    for directory, _, names, fd in os.fwalk(view, follow_symlinks=False):
        below = Path(directory).relative_to(view)
        for name in names:
            with _regular(name, fd) as source:
                if source is None:
                    continue
                original = next((p for lower in lowers if (p := lower / below / name).is_file()), None)
                if original is None or not _same(original, source):
                    _take(source, upper / below / name)


def _take(source: int, destination: Path) -> None:
    destination.parent.mkdir(parents=True, exist_ok=True)
    os.lseek(source, 0, os.SEEK_SET)
    with os.fdopen(os.dup(source), "rb") as reading, destination.open("wb") as writing:
        shutil.copyfileobj(reading, writing, _CHUNK)
    status = os.fstat(source)
    destination.chmod(stat.S_IMODE(status.st_mode) & 0o777)
    os.utime(destination, ns=(status.st_atime_ns, status.st_mtime_ns))


def _same(original: Path, found: int) -> bool:
    then, now = original.stat(), os.fstat(found)
    if (then.st_size, then.st_mtime_ns) != (now.st_size, now.st_mtime_ns):
        return False
    with original.open("rb") as file:
        while chunk := file.read(_CHUNK):
            if os.read(found, len(chunk)) != chunk:
                return False
    return True


@contextlib.contextmanager
def _regular(name: str, fd: int) -> Iterator[int | None]:
    """A descriptor of the regular file `name` in the directory `fd`; None for all else."""
    opened = -1
    try:
        # The type first: opening a device may act on it.
        if stat.S_ISREG(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
            opened = os.open(name, _FILE, dir_fd=fd)
    except (PermissionError, FileNotFoundError):
        pass
    try:
        yield opened if opened >= 0 and stat.S_ISREG(os.fstat(opened).st_mode) else None
    finally:
        if opened >= 0:
            os.close(opened)
