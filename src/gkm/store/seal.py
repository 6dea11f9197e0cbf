"""Sealing: an unpacked directory becomes a sealed tree, in one rename."""

import errno
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from gkm.base.files import sync_directory
from gkm.caches.model import Inventory
from gkm.caches.scan import scan
from gkm.store.layout import Layout
from gkm.store.linux.syscalls import sync_filesystem
from gkm.store.sealed import FILES, Record, Relocatable, SealedFile, SealedTree, write_record
from gkm.store.trash import throw_away


class WrittenFile(Protocol):
    """What unpacking says of each file it wrote (`gkm.images.treewrite.UnpackedFile`)."""

    @property
    def path(self) -> str:
        """Relative to the tree's root."""

    @property
    def bytes(self) -> int:
        """Its size."""

    @property
    def digest(self) -> str:
        """Of its content."""

    @property
    def executable(self) -> bool:
        """Whether it was packed executable."""


def seal(
    layout: Layout,
    directory: Path,
    written: Iterable[WrittenFile],
    *,
    digest: str,
    image: str,
    labels: dict[str, str],
) -> SealedTree:
    """Make `directory`, whose ``files`` were just unpacked, the sealed tree of `digest`.

    Call it with the digest's lock held. Everything is on the disk before the rename, so a tree that is there
    is whole, also after a power cut.

    Raises:
        OSError: the disk failed.
        UsageError: the tree is none that `gkm.caches.scan` takes.
    """
    listing = tuple(SealedFile(f.path, f.digest, f.bytes, f.executable) for f in written)
    files = directory / FILES
    with ThreadPoolExecutor(max_workers=1) as early:
        # The files go to the disk while they are parsed; the sync below then has little left to write.
        flushed = early.submit(sync_filesystem, files)
        inventory = scan(files)
        flushed.result()
    _link_identical(files, listing)
    files.chmod(0o777)  # like all below it: any uid writes through an overlay, whose parent is closed
    record = Record(
        version=1,
        digest=digest,
        image=image,
        labels=labels,
        bytes=sum(file.bytes for file in listing),
        files=len(listing),
        staged_at=datetime.now(UTC).isoformat(timespec="seconds"),
        relocatable=_relocatable(inventory, listing),
    )
    write_record(directory, record, inventory, listing)
    sync_filesystem(directory)
    final = layout.tree(digest)
    throw_away(layout, final)  # there is none, but for what was damaged by hand
    directory.rename(final)
    sync_directory(layout.trees)
    return SealedTree(final, record)


def _relocatable(inventory: Inventory, listing: Iterable[SealedFile]) -> Relocatable:
    names = {record.file for found in inventory.formats for record in found.relocatable}
    return Relocatable(len(names), sum(file.bytes for file in listing if file.path in names))


def _link_identical(files: Path, listing: Iterable[SealedFile]) -> None:
    """Make one file of all with the same content and mode.

    Shared objects stay apart: the dynamic loader takes two names of one inode for one library (it compares
    st_dev and st_ino), and a workload that loads both would share what is static in them.
    """
    first: dict[tuple[str, bool], str] = {}
    twin = files.parent / "twin"
    for file in listing:
        name = file.path.rpartition("/")[2]
        if name.endswith(".so") or ".so." in name:
            continue
        same = first.setdefault((file.digest, file.executable), file.path)
        if same is file.path:
            continue
        try:
            os.link(files / same, twin)
        except OSError as error:
            if error.errno != errno.EMLINK:
                raise
            first[file.digest, file.executable] = file.path  # this inode can have no more names
            continue
        twin.replace(files / file.path)
