"""An image becomes a sealed tree: whole, once, shared, and never again touched."""

import asyncio
import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gkm.images.errors import DigestMismatchError
from gkm.images.layout import LayoutRepository
from gkm.images.pack import pack
from gkm.store.errors import NotACacheImageError, StoreError, StoreFullError, TreeMissingError
from gkm.store.prepare import discard, prepare
from gkm.store.store import Store
from support.staging import WatchedRepository, image_of, pack_into_layout, write_files
from support.users import ordinary_user
from support.views import everything, triton_files

FILES = triton_files("add", "mul") | {
    "ADD" + "A" * 49 + "/launcher.so": b"\x7fELF same",
    "MUL" + "A" * 49 + "/launcher.so": b"\x7fELF same",
    "ADD" + "A" * 49 + "/copy.ttir": b"same" * 100,
    "MUL" + "A" * 49 + "/copy.ttir": b"same" * 100,
}


@pytest.fixture
async def layout(tmp_path: Path) -> Path:
    """A layout directory with an image of `FILES`, one of which is executable."""
    tree = write_files(tmp_path / "packed", FILES)
    (tree / ("ADD" + "A" * 49) / "launcher.so").chmod(0o755)
    await pack_into_layout(tree, tmp_path / "layout")
    return tmp_path / "layout"


async def test_the_tree_is_what_was_packed_and_open_to_every_uid_below_a_closed_door(
    store: Store, layout: Path
) -> None:
    repository = LayoutRepository(layout)
    image = await image_of(repository, layout)
    assert store.tree(image.descriptor.digest) is None
    tree = await store.stage(repository, image, reference="gkm.test/cache:1")
    assert everything(tree.path) == FILES
    assert (tree.digest, tree.image) == (image.descriptor.digest, "gkm.test/cache:1")
    assert tree.labels == image.labels
    assert tree.bytes == sum(map(len, FILES.values()))
    assert {entry.name for entry in tree.inventory.entries} == {"add", "mul"}
    modes = {stat.S_IMODE(p.stat().st_mode) for p in [tree.path, *tree.path.rglob("*")] if p.is_dir()}
    assert modes == {0o777}
    launcher = tree.path / ("ADD" + "A" * 49) / "launcher.so"
    assert stat.S_IMODE(launcher.stat().st_mode) == 0o777
    assert stat.S_IMODE((launcher.parent / "add.json").stat().st_mode) == 0o666
    assert stat.S_IMODE(store.layout.trees.stat().st_mode) == 0o700
    assert store.verify(tree.digest) == ()


async def test_identical_files_become_one_but_shared_objects_do_not(store: Store, layout: Path) -> None:
    """The dynamic loader takes two names of one inode for one library."""
    repository = LayoutRepository(layout)
    tree = await store.stage(repository, await image_of(repository, layout))
    one, other = (tree.path / ("ADD" + "A" * 49), tree.path / ("MUL" + "A" * 49))
    assert (one / "copy.ttir").samefile(other / "copy.ttir")
    assert not (one / "launcher.so").samefile(other / "launcher.so")


async def test_many_who_want_one_digest_fetch_it_once(store: Store, layout: Path) -> None:
    repository = WatchedRepository(layout)
    image = await image_of(repository, layout)
    trees = await asyncio.gather(*(store.stage(repository, image) for _ in range(8)))
    assert repository.opened == 1
    assert len({tree.directory for tree in trees}) == 1
    await Store.open(store.root).stage(repository, image)
    assert repository.opened == 1


async def test_another_process_waits_for_the_one_that_fetches(store: Store, layout: Path) -> None:
    repository = WatchedRepository(layout)
    image = await image_of(repository, layout)
    repository.go_on.clear()
    ours = asyncio.create_task(store.stage(repository, image))
    await repository.started.wait()
    program = (
        "import asyncio, sys, json; from pathlib import Path; sys.path.insert(0, sys.argv[3])\n"
        "from gkm.store.store import Store; from support.staging import WatchedRepository, image_of\n"
        "async def main():\n"
        "    layout = Path(sys.argv[2]); repository = WatchedRepository(layout)\n"
        "    image = await image_of(repository, layout); store = Store.open(Path(sys.argv[1]))\n"
        "    print('waiting', flush=True); tree = await store.stage(repository, image)\n"
        "    print(json.dumps([repository.opened, tree.digest]))\n"
        "asyncio.run(main())\n"
    )
    tests = str(Path(__file__).parents[2])
    theirs = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-c", program, str(store.root), str(layout), tests, stdout=subprocess.PIPE
    )
    assert theirs.stdout is not None
    assert await theirs.stdout.readline() == b"waiting\n"
    repository.go_on.set()
    tree = await ours
    assert json.loads((await theirs.communicate())[0]) == [0, tree.digest]


async def test_whoever_waits_tries_itself_when_the_first_one_fails(store: Store, layout: Path) -> None:
    failing, working = WatchedRepository(layout), WatchedRepository(layout)
    image = await image_of(working, layout)
    failing.go_on.clear()
    first = asyncio.create_task(store.stage(failing, image))
    await failing.started.wait()
    second = asyncio.create_task(store.stage(working, image))
    failing.failure = DigestMismatchError("not what the manifest says")
    failing.go_on.set()
    with pytest.raises(DigestMismatchError):
        await first
    assert everything((await second).path) == FILES


async def test_an_image_of_something_else_is_refused(store: Store, tmp_path: Path) -> None:
    packed = pack({"usr/bin/tool": b"x"}, labels={}, title=None, into=tmp_path)
    repository = LayoutRepository(tmp_path / "layout")
    for descriptor, source in packed.blobs:
        await repository.write_blob(descriptor, source)
    await repository.write_manifest(packed.manifest, packed.manifest_descriptor.media_type, "1")
    with pytest.raises(NotACacheImageError, match="gkm pack"):
        await store.stage(repository, await image_of(repository, tmp_path / "layout"))
    assert store.trees() == []


async def test_a_cancelled_staging_leaves_nothing(store: Store, layout: Path) -> None:
    repository = WatchedRepository(layout)
    image = await image_of(repository, layout)
    repository.go_on.clear()
    staging = asyncio.create_task(store.stage(repository, image))
    await repository.started.wait()
    assert list(store.layout.staging.iterdir()) != []
    staging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await staging
    assert list(store.layout.staging.iterdir()) == []
    assert store.trees() == []


async def test_waiting_can_be_cancelled(store: Store, layout: Path) -> None:
    repository = WatchedRepository(layout)
    image = await image_of(repository, layout)
    repository.go_on.clear()
    first = asyncio.create_task(store.stage(repository, image))
    await repository.started.wait()
    second = asyncio.create_task(store.stage(repository, image))
    await asyncio.sleep(0.1)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    repository.go_on.set()
    assert everything((await first).path) == FILES


@pytest.mark.root
async def test_a_full_disk_is_said_and_cleared_up(open_path: Path, layout: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=755", "gkm-test", str(small)], check=True)
    try:
        store = Store.open(small / "store")
        big = write_files(tmp_path / "big", triton_files("add") | {"filler": bytes(range(256)) * 1024})
        await pack_into_layout(big, tmp_path / "big-layout")
        repository = LayoutRepository(tmp_path / "big-layout")
        image = await image_of(repository, tmp_path / "big-layout")
        with pytest.raises(StoreFullError, match="gkm store gc"):
            await store.stage(repository, image)
        assert list(store.layout.staging.iterdir()) == []
        assert store.trees() == []
        # There is room for a smaller one.
        repository = LayoutRepository(layout)
        assert everything((await store.stage(repository, await image_of(repository, layout))).path) == FILES
    finally:
        subprocess.run(["umount", str(small)], check=True)


async def test_collection_takes_what_nobody_uses(store: Store, layout: Path, tmp_path: Path) -> None:
    repository = LayoutRepository(layout)
    used = await store.stage(repository, await image_of(repository, layout))
    other = write_files(tmp_path / "other", triton_files("div"))
    await pack_into_layout(other, tmp_path / "other-layout")
    repository = LayoutRepository(tmp_path / "other-layout")
    unused = await store.stage(repository, await image_of(repository, tmp_path / "other-layout"))
    prepared = prepare(store, used)
    try:
        assert {tree.digest for tree in store.trees()} == {used.digest, unused.digest}
        assert store.collect(keep={unused.digest}).removed == ()
        assert store.collect(unused_seconds=3600).removed == ()
        collected = store.collect()
        assert (collected.removed, collected.in_use) == ((unused.digest,), (used.digest,))
        assert collected.bytes == unused.bytes
        assert store.tree(unused.digest) is None
        with pytest.raises(TreeMissingError):
            prepare(store, unused)
    finally:
        discard(prepared)
    assert store.collect().removed == (used.digest,)


async def test_a_tree_on_its_way_is_not_collected(store: Store, layout: Path) -> None:
    repository = WatchedRepository(layout)
    image = await image_of(repository, layout)
    repository.go_on.clear()
    staging = asyncio.create_task(store.stage(repository, image))
    await repository.started.wait()
    Store.open(store.root)
    assert store.collect().removed == ()
    repository.go_on.set()
    assert everything((await staging).path) == FILES


@pytest.mark.root
async def test_what_an_ordinary_user_staged_root_does_not_use(layout: Path) -> None:
    """A store has one owner: files of two would mix rights."""
    with ordinary_user() as user:
        home = user.home / "store"
        program = (
            "import sys,pathlib; from gkm.store.store import Store; Store.open(pathlib.Path(sys.argv[1]))"
        )
        made = user.run(user.command(sys.executable, "-P", "-c", program, str(home)))
        assert made.returncode == 0, made.stderr
        with pytest.raises(StoreError, match="belongs to uid"):
            Store.open(home)


async def test_a_tree_whose_record_is_damaged_is_staged_again_and_its_views_keep_their_files(
    store: Store, layout: Path
) -> None:
    repository = WatchedRepository(layout)
    image = await image_of(repository, layout)
    first = await store.stage(repository, image)
    prepared = prepare(store, first)
    try:
        (first.directory / "record.json").write_text("{")
        assert await store.stage(repository, image) == store.tree(first.digest)
        assert repository.opened == 2
        assert store.verify(first.digest) == ()
        (kept,) = store.layout.damaged.iterdir()
        store.collect()
        assert list(store.layout.damaged.iterdir()) == [kept], "a view of it may be mounted"
    finally:
        discard(prepared)
    store.collect(keep={first.digest})
    assert list(store.layout.damaged.iterdir()) == []
