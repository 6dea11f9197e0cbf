"""Mode ``copy``: the view as plain files, where no overlay can be mounted."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path


def fill_view(lowers: Iterable[Path], view: Path, *, open_to_all: bool = False) -> None:
    """Copy the layers (top first) into the empty directory `view`, writable for its owner alone.

    Unlike an overlay in a namespace of its own, a copy can be reached by other users, and who can write in
    it can plant code. `open_to_all`: any uid may write, for a copy that only one workload can reach.
    Raises `OSError`.
    """
    mask = 0o777 if open_to_all else 0o755
    for lower in reversed(tuple(lowers)):
        for directory, names, files in os.walk(lower):
            here = view / Path(directory).relative_to(lower)
            for name in names:
                (here / name).mkdir(exist_ok=True)
                (here / name).chmod(mask)
            for name in files:
                _copy(Path(directory, name), here / name, mask)


def _copy(source: Path, destination: Path, mask: int) -> None:
    shutil.copyfile(source, destination, follow_symlinks=False)
    status = source.stat()
    destination.chmod(status.st_mode & mask)
    os.utime(destination, ns=(status.st_atime_ns, status.st_mtime_ns))
