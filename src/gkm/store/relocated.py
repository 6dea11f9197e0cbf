"""Writing a relocation layer: the files whose content depends on where the view stands."""

import os
from pathlib import Path
from typing import NamedTuple

from gkm.caches.model import Inventory
from gkm.caches.relocation import relocate
from gkm.caches.tree import TreeReadError, UnsafeTreeError
from gkm.store.errors import LayerTooLargeError, TreeDamagedError
from gkm.store.layers import LayerRecord, write_layer_record
from gkm.store.linux.syscalls import sync_filesystem
from gkm.store.sealed import FILES, Relocatable

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


_GROWTH = 4
_GROWTH_PER_FILE = 64 << 10


def layer_limit(relocatable: Relocatable) -> int:
    """How many bytes a layer may have: paths grow with the root they start from, which is long in few cases."""
    return _GROWTH * relocatable.bytes + _GROWTH_PER_FILE * relocatable.files


def build_layer(
    files: Path, inventory: Inventory, root: str, directory: Path, *, limit_bytes: int
) -> LayerRecord:
    """Make the new directory `directory` a layer for `root` of the tree `files`, durable, ready to be installed.

    Raises:
        UsageError: no cache can be relocated to `root`.
        TreeDamagedError: `inventory` names what cannot be read.
        LayerTooLargeError: it would have more than `limit_bytes`.
        OSError: the disk failed.
    """
    directory.mkdir(mode=0o700)
    try:
        written = write_relocation_layer(files, inventory, root, directory / FILES, limit_bytes=limit_bytes)
    except (TreeReadError, UnsafeTreeError) as error:
        raise TreeDamagedError(f"a sealed tree is damaged: {error}") from error
    record = LayerRecord(version=1, root=root, files=written.files, bytes=written.bytes)
    write_layer_record(directory, record)
    sync_filesystem(directory)
    return record


class Written(NamedTuple):
    """What was written."""

    files: int
    bytes: int


def write_relocation_layer(
    tree: Path, inventory: Inventory, mount_root: str, layer: Path, *, limit_bytes: int
) -> Written:
    """Write into the new directory `layer` each file of `tree` (of which `inventory` tells) that must differ at
    `mount_root`.

    Modes and times are those of the sealed tree, so any uid can replace them through the mount. Where no file
    has to differ, `layer` is not made.

    Raises:
        UsageError: a cache cannot be relocated to `mount_root`.
        TreeReadError: a file that the inventory names cannot be read.
        LayerTooLargeError: the files would have more than `limit_bytes` together.
        OSError: the disk failed.
    """
    carried = frozenset(inventory.files)
    root, sealed = str(layer), str(tree)
    made: set[str] = set()
    count = size = 0
    for name, content in relocate(tree, inventory, mount_root):
        assert name in carried, f"a format relocates {name!r}, which its inventory does not carry"
        size += len(content)
        if size > limit_bytes:
            raise LayerTooLargeError(
                f"the paths of this cache, rewritten for {mount_root}, need more than {limit_bytes} bytes:"
                " mount it at a shorter path"
            )
        _make_directories(root, os.path.dirname(name), made)  # noqa: PTH120  thousands of times: text is cheaper
        _write(f"{root}/{name}", content, os.stat(f"{sealed}/{name}"))  # noqa: PTH116  as above
        count += 1
    return Written(count, size)


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
