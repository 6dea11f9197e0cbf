"""kill -9 at every step that touches the disk: the next opening finds a whole tree or none, and no leftovers.

A child process kills itself at the n-th filesystem operation of its work, for each n until the work is done.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gkm.images.layout import LayoutRepository
from gkm.store.claims import claim, is_owned
from gkm.store.layers import all_layers, find_layer
from gkm.store.mode import Mode
from gkm.store.prepare import discard, prepare
from gkm.store.store import Store
from gkm.store.trash import throw_away
from support.kills import killed_at_each_step
from support.staging import image_of, pack_into_layout, write_files
from support.views import everything, seal_files, triton_files

FILES = triton_files("add") | {"ADD" + "A" * 49 + "/same": b"x", "ADD" + "A" * 49 + "/other": b"x"}


def leftovers(store: Store) -> list[Path]:
    layout = store.layout
    parts = (layout.staging, layout.mounts, layout.trash)
    strays = [p for p in layout.root.iterdir() if p.name.startswith(".version.")]
    return strays + [p for part in parts for p in part.iterdir() if p.name != ".lock"]


def test_staging_killed_at_any_step(tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    asyncio.run(pack_into_layout(write_files(tmp_path / "tree", FILES), layout))
    repository = LayoutRepository(layout)
    image = asyncio.run(image_of(repository, layout))
    root = tmp_path / "store"
    Store.open(root)

    def work() -> None:
        asyncio.run(Store.open(root).stage(repository, image))

    whole = 0
    for step in killed_at_each_step(work, at_least=40):
        store = Store.open(root)
        assert leftovers(store) == [], step
        tree = store.tree(image.descriptor.digest)
        if tree is not None:
            whole += 1
            assert store.verify(tree.digest) == (), step
            assert everything(tree.path) == FILES, step
            store.collect()
    assert whole >= 1, "no kill fell between the rename and the end"
    assert everything(Store.open(root).trees()[0].path) == FILES


def test_making_a_store_killed_at_any_step(tmp_path: Path) -> None:
    root = tmp_path / "store"

    def work() -> None:
        Store.open(root)

    for step in killed_at_each_step(work, at_least=10):
        store = Store.open(root)
        assert leftovers(store) == [], step
        assert store.trees() == []
        shutil.rmtree(root)


def test_relocating_killed_at_any_step(tmp_path: Path) -> None:
    root = tmp_path / "store"
    tree = seal_files(Store.open(root), FILES)
    mounted_at = tmp_path / "target"

    def work() -> None:
        store = Store.open(root)
        store.relocated(tree, str(mounted_at))

    whole = 0
    for step in killed_at_each_step(work, at_least=20):
        store = Store.open(root)
        assert leftovers(store) == [], step
        assert everything(tree.path) == FILES, step
        layer = find_layer(tree, str(mounted_at))
        if layer is not None:
            whole += 1
            (lower,) = layer.lower_directories()
            (group,) = everything(lower).values()
            assert str(mounted_at).encode() in group, step
            assert store.relocated(tree, str(mounted_at)) == layer
        store.collect(keep={tree.digest}, layers_unused_seconds=-1)
        assert all_layers(tree.directory) == [], step
    assert whole >= 1, "no kill fell between the rename and the end"


def test_dropping_layers_killed_at_any_step(tmp_path: Path) -> None:
    root = tmp_path / "store"
    tree = seal_files(Store.open(root), FILES)

    def work() -> None:
        Store.open(root).collect(keep={tree.digest}, layers_unused_seconds=-1)

    Store.open(root).relocated(tree, "/cache")
    for step in killed_at_each_step(work, at_least=10):
        store = Store.open(root)
        assert leftovers(store) == [], step
        layer = store.relocated(tree, "/cache")  # whole, if it is still there, or made anew
        assert layer is not None
        assert len(everything(layer.lower_directories()[0])) == 1, step
    assert all_layers(tree.directory) == []


@pytest.mark.parametrize("mode", [Mode.OVERLAY, Mode.COPY])
def test_preparing_and_discarding_a_view_killed_at_any_step(tmp_path: Path, mode: Mode) -> None:
    root, target = tmp_path / "store", tmp_path / "made" / "target"
    tree = seal_files(Store.open(root), FILES)
    sealed = everything(tree.path)

    def work() -> None:
        store = Store.open(root)
        discard(prepare(store, tree, target=target, mode=mode))

    for step in killed_at_each_step(work, at_least=30):
        store = Store.open(root)
        assert leftovers(store) == [], step
        assert not target.exists(), step
        assert store.mounts() == []
    assert everything(tree.path) == sealed


@pytest.mark.root
def test_an_owned_mount_of_a_dead_process_is_undone_and_a_persistent_one_is_kept(tmp_path: Path) -> None:
    root = tmp_path / "store"
    tree = seal_files(Store.open(root), FILES)
    targets = {False: tmp_path / "owned", True: tmp_path / "kept"}
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from gkm.store.attach import attach; from gkm.store.mode import Mode\n"
        "from gkm.store.prepare import prepare; from gkm.store.store import Store\n"
        "store = Store.open(Path(sys.argv[1])); tree = store.trees()[0]\n"
        "for path, persistent in ((sys.argv[2], False), (sys.argv[3], True)):\n"
        "    attach(prepare(store, tree, target=Path(path), mode=Mode.OVERLAY, persistent=persistent))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    argv = [sys.executable, "-P", "-c", program, str(root), str(targets[False]), str(targets[True])]
    assert subprocess.run(argv, check=False).returncode == -signal.SIGKILL
    assert targets[False].is_mount()
    assert targets[True].is_mount()
    store = Store.open(root)
    try:
        assert not targets[False].exists()
        (kept,) = store.mounts()
        assert (kept.journal.target, kept.mounted, kept.owned) == (str(targets[True]), True, False)
        assert kept.journal.from_this_boot
        assert everything(targets[True]).keys() == FILES.keys()
        assert store.collect().in_use == (tree.digest,)
    finally:
        for found in store.mounts():
            store.undo(found)
    assert store.mounts() == []
    assert not targets[True].exists()
    assert leftovers(store) == []


def test_a_claim_is_owned_from_its_first_instant_though_others_look(tmp_path: Path) -> None:
    """Whoever asks for owners holds each lock for an instant; the claim must not be lost to that."""
    store = Store.open(tmp_path / "store")
    looker = os.fork()
    if looker == 0:
        try:
            while True:
                for path in store.layout.staging.iterdir():
                    is_owned(path)
        finally:
            os._exit(1)  # nothing may return into the test from here
    try:
        for _ in range(500):
            ours = claim(store.layout, store.layout.staging)
            assert is_owned(ours.path)
            throw_away(store.layout, ours.path)
            ours.close()
    finally:
        os.kill(looker, signal.SIGKILL)
        os.waitpid(looker, 0)
