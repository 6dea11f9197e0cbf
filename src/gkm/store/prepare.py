"""A view of a sealed tree, file by file, up to but not including the mount."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gkm.store.claims import claim
from gkm.store.errors import disk_error
from gkm.store.journal import Journal, current_boot, this_process, write_journal
from gkm.store.layers import Layer
from gkm.store.layout import Layout
from gkm.store.locks import locked
from gkm.store.mode import Mode
from gkm.store.overlay import is_mounted, unmount
from gkm.store.prepared import PreparedMount
from gkm.store.relocated import layer_limit, write_relocation_layer
from gkm.store.relocation import check_present, relocated
from gkm.store.sealed import SealedTree
from gkm.store.target import (
    check_target,
    empty_directory,
    make_directories,
    missing_directories,
    remove_directories,
    resolve_target,
)
from gkm.store.trash import throw_away
from gkm.store.usetime import mark_used

__all__ = ["PreparedMount", "discard", "prepare", "prepared_mount"]

if TYPE_CHECKING:
    from gkm.store.store import Store


def prepare(
    store: "Store",
    tree: SealedTree | None,
    *,
    target: Path | None = None,
    mode: Mode | None = None,
    persistent: bool = False,
    secluded: bool = False,
) -> PreparedMount:
    """Write all files of a new view of `tree`, or of an empty one that starts cold (None).

    It appears at `target`, made if needed, or at a private directory in the store. `secluded`: it is mounted in a
    namespace of its own (`run_in_view`), where all such views have one path and so, of one tree, one relocation
    layer; a copy has a directory of its own even then. `mode` is the store's best unless given. A view that is
    not `persistent` is thrown away by the next opening of the store once its owner is dead. Call `discard` when
    done; `prepared_mount` does.

    Raises:
        TargetError: nothing can be mounted at `target`.
        TreeMissingError: the tree was collected meanwhile.
        StoreError: the disk failed; nothing is left behind.
    """
    mode = store.probe_modes().mode if mode is None else mode
    layout = store.layout
    made: tuple[Path, ...] = ()
    if target is not None:
        target = resolve_target(target, layout.root)
        check_target(target, mode)
        made = missing_directories(target)
    if target is None and secluded and mode is not Mode.COPY:
        target = _common_view(layout)
    # A layer for a path that others may have again is shared; a directory below ours is nobody else's ever again.
    layer = None if tree is None or target is None else relocated(layout, tree, str(target))
    try:
        owned = claim(layout, layout.mounts)
    except OSError as error:
        raise disk_error(error, "preparing a mount", layout.root) from error
    view = owned.path / "view" if target is None else target
    journal = Journal(
        version=1,
        mode=mode,
        target=str(view),
        digest=None if tree is None else tree.digest,
        made_directories=tuple(str(path) for path in made),
        persistent=persistent,
        owner=this_process(),
        boot_id=current_boot(),
        layer=None if layer is None else layer.name,
    )
    prepared = PreparedMount(layout, owned, journal, tree)
    try:
        _write(prepared, layer, own_view=target is None)
    except BaseException as error:
        discard(prepared)
        if isinstance(error, OSError):
            raise disk_error(error, "preparing a mount", layout.root) from error
        raise
    return prepared


def _common_view(layout: Layout) -> Path:
    try:
        layout.view.mkdir(mode=0o755, exist_ok=True)
        layout.view.chmod(0o755)  # any uid may pass to what is mounted there
    except OSError as error:
        raise disk_error(error, "preparing a mount", layout.root) from error
    return layout.view


def _write(prepared: PreparedMount, layer: Layer | None, *, own_view: bool) -> None:
    tree = prepared.tree
    if tree is None:
        write_journal(prepared.directory, prepared.journal)
    else:
        # Under this lock collection cannot pass between the look at the tree and the journal that holds it.
        with locked(prepared.layout.digest_lock(tree.digest), shared=True):
            check_present(tree, layer)
            write_journal(prepared.directory, prepared.journal)
            mark_used(prepared.layout, tree.digest)
    make_directories(tuple(Path(path) for path in prepared.journal.made_directories))
    if own_view:
        prepared.target.mkdir()
        prepared.target.chmod(0o755)
        prepared.directory.chmod(0o711)  # any uid may pass to the view; what is beside it is closed
    private = prepared.upper.parent
    private.mkdir(mode=0o700)
    prepared.work.mkdir(mode=0o700)
    prepared.upper.mkdir()
    prepared.upper.chmod(0o777)  # the upper decides who may write in the view's root: any uid
    if tree is None:
        prepared.layer.mkdir()
    elif own_view:
        limit = layer_limit(tree.relocatable)
        view = str(prepared.target)
        write_relocation_layer(tree.path, tree.inventory, view, prepared.layer, limit_bytes=limit)


def discard(prepared: PreparedMount) -> None:
    """Throw a view away, its upper too, and directories that were made for it. One that is still attached, after
    an error, is detached without waiting for its users.

    Raises:
        MountError: it could not be detached.
        OSError: the store's directory cannot be changed.
    """
    if prepared.mode is Mode.COPY:
        empty_directory(prepared.target)
    elif is_mounted(str(prepared.target), str(prepared.upper)):
        unmount(str(prepared.target), lazily=True)
    remove_directories(tuple(Path(path) for path in prepared.journal.made_directories))
    throw_away(prepared.layout, prepared.directory)
    prepared.claim.close()


@contextmanager
def prepared_mount(
    store: "Store",
    tree: SealedTree | None,
    *,
    target: Path | None = None,
    mode: Mode | None = None,
    secluded: bool = False,
) -> Iterator[PreparedMount]:
    """`prepare` for the length of a block, whatever ends it."""
    prepared = prepare(store, tree, target=target, mode=mode, secluded=secluded)
    try:
        yield prepared
    finally:
        discard(prepared)
