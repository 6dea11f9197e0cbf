"""The relocation layer: the files whose content depends on where the view stands."""

import os
from pathlib import Path

from gkm.caches.relocation import relocate
from gkm.store.sealed import SealedTree

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_relocation_layer(tree: SealedTree, mount_root: str, layer: Path) -> int:
    """Write into the new directory `layer` each file of `tree` that must differ at `mount_root`.

    Modes and times are those of the sealed tree, so any uid can replace them through the mount. Returns how
    many files were written; where none was, `layer` is not made.

    Raises:
        UsageError: a cache cannot be relocated to `mount_root`.
        OSError: the disk failed.
    """
    carried = frozenset(tree.inventory.files)
    root, sealed = str(layer), str(tree.path)
    made: set[str] = set()
    count = 0
    for name, content in relocate(tree.path, tree.inventory, mount_root):
        assert name in carried, f"a format relocates {name!r}, which its inventory does not carry"
        _make_directories(root, os.path.dirname(name), made)  # noqa: PTH120  thousands of times: text is cheaper
        _write(f"{root}/{name}", content, os.stat(f"{sealed}/{name}"))  # noqa: PTH116  as above
        count += 1
    return count


def _make_directories(root: str, relative: str, made: set[str]) -> None:
    if relative in made:
        return
    made.add(relative)
    if relative:
        _make_directories(root, os.path.dirname(relative), made)  # noqa: PTH120  as above
    path = f"{root}/{relative}" if relative else root
    os.mkdir(path)  # noqa: PTH102  as above
    os.chmod(path, 0o777)  # noqa: PTH101, S103  the topmost layer decides what a view's directories allow: all uids


def _write(path: str, content: bytes, like: os.stat_result) -> None:
    fd = os.open(path, _NEW_FILE, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        file.flush()  # before the time is set
        os.fchmod(fd, like.st_mode & 0o777)
        os.utime(fd, ns=(like.st_atime_ns, like.st_mtime_ns))
