"""Relocation layers made by gkm-extract for the agent: confined, once for each path, and nothing believed of it."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from gkm.agent.child import PROGRAM, Extractor
from gkm.agent.confinement import Identity
from gkm.agent.errors import ExtractionCrashedError, ExtractionFailedError, TreeRefusedError
from gkm.agent.state import NodeState
from gkm.agent.trees import Trees
from gkm.store.errors import TreeDamagedError, TreeMissingError
from gkm.store.layers import all_layers
from gkm.store.sealed import SealedTree
from gkm.store.store import Store
from support import entering_program
from support.made_caches import key, triton_entry, vllm_cache
from support.views import everything, seal_files, triton_files

pytestmark = pytest.mark.root

FILES = triton_files("add", "mul")


@pytest.fixture
def tree(store: Store) -> SealedTree:
    return seal_files(store, FILES)


def trees_of(
    store: Store, child: Identity, *, program: tuple[str, ...] = PROGRAM, again: list[str] | None = None
) -> Trees:
    """`Trees` with real children; `again` takes the digests that are to be staged again."""
    state = NodeState(staged={tree.digest: tree.bytes for tree in store.trees()})
    lost = [] if again is None else again
    return Trees(store, Extractor(child, program), state, again=lost.append)


async def test_a_child_makes_what_this_process_would_and_it_is_roots_own(
    store: Store, tree: SealedTree, child: Identity
) -> None:
    trees = trees_of(store, child)
    layer = await trees.layer(tree.digest, "/seen/here")
    assert layer is not None
    made = everything(layer.directory)
    for path in [layer.directory, *layer.directory.rglob("*")]:
        assert (path.lstat().st_uid, path.lstat().st_gid) == (os.geteuid(), os.getegid()), path
    modes = {path.relative_to(layer.directory): path.stat().st_mode for path in layer.directory.rglob("*")}
    assert store.collect(keep={tree.digest}, layers_unused_seconds=-1).bytes == layer.bytes
    ours = store.relocated(tree, "/seen/here")
    assert ours == layer
    assert everything(layer.directory) == made
    again = {path.relative_to(layer.directory): path.stat().st_mode for path in layer.directory.rglob("*")}
    assert again == modes
    assert everything(tree.path) == FILES


async def test_every_format_is_rewritten_without_anything_that_is_closed_to_the_child(
    store: Store, child: Identity, tmp_path: Path
) -> None:
    """By then the interpreter's own files may be out of reach: nothing more can be imported."""
    triton_entry(vllm_cache(tmp_path / "cache") / "triton_cache" / key("a"), stood_at="/old")
    tree = seal_files(store, everything(tmp_path / "cache"), name="vllm")
    layer = await trees_of(store, child).layer(tree.digest, "/seen/here")
    assert layer is not None
    files = everything(layer.lower_directories()[0])
    assert {Path(path).name for path in files} == {"__grp__add.json", "vllm_compile_cache.py"}
    assert all(b"/seen/here/" in content for content in files.values())


async def test_pods_that_want_the_same_path_wait_for_one_child(
    store: Store, tree: SealedTree, child: Identity, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    count = f"import os,sys; open({str(started)!r},'a').write('.'); os.execv(sys.argv[1], sys.argv[1:])"
    trees = trees_of(store, child, program=(sys.executable, "-c", count, *PROGRAM))
    roots = ["/one", "/two", "/one", "/one"]
    layers = await asyncio.gather(*(trees.layer(tree.digest, root) for root in roots))
    assert [layer.root for layer in layers if layer is not None] == roots
    assert await trees.layer(tree.digest, "/two") == layers[1]
    assert started.read_text() == ".."


async def test_a_call_that_is_given_up_does_not_end_the_child(
    store: Store, tree: SealedTree, child: Identity
) -> None:
    trees = trees_of(store, child)
    call = asyncio.create_task(trees.layer(tree.digest, "/cache"))
    while not list(store.layout.staging.iterdir()):
        await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    while not all_layers(tree.directory):
        await asyncio.sleep(0.01)
    assert await trees.layer(tree.digest, "/cache") is not None


async def test_an_agent_that_ends_leaves_nothing_half_made(
    store: Store, tree: SealedTree, child: Identity
) -> None:
    trees = trees_of(store, child, program=(sys.executable, "-c", "import time; time.sleep(1000)"))
    waiting = asyncio.create_task(trees.layer(tree.digest, "/cache"))
    while not list(store.layout.staging.iterdir()):
        await asyncio.sleep(0.01)
    await trees.aclose()
    assert (await asyncio.gather(waiting, return_exceptions=True))[0] is not None
    assert list(store.layout.staging.iterdir()) == []
    assert all_layers(tree.directory) == []


def test_the_child_can_read_its_tree_and_write_nothing_of_it(
    store: Store, tree: SealedTree, child: Identity
) -> None:
    """What it could reach by a name it cannot; through its working directory it reads."""
    other = seal_files(store, triton_files("div"), name="other")
    numbers = [os.getpid(), child.uid, child.gid]
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            entering_program.__file__,
            *map(str, numbers),
            tree.directory,
            other.directory,
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    told = msgspec.json.decode(done.stdout, type=dict[str, str])
    read_only = "Read-only file system"
    assert told == {
        "effective": "0",
        "read": "ok",
        "inventory": "ok",
        "write": read_only,
        "make": read_only,
        "remove": read_only,
        "chmod": read_only,
        "by name": "Permission denied",
        "other tree": "Permission denied",
        "socket": "Operation not permitted",
    }
    assert everything(tree.path) == FILES


async def test_a_damaged_tree_is_set_aside_once_and_staged_again(
    store: Store, tree: SealedTree, child: Identity
) -> None:
    (tree.directory / "inventory.json").write_text("{")
    again: list[str] = []
    trees = trees_of(store, child, again=again)
    with pytest.raises(TreeDamagedError) as damaged:
        await trees.layer(tree.digest, "/cache")
    assert await trees.lost(tree.digest, damaged.value)
    assert again == [tree.digest]
    assert store.tree(tree.digest) is None
    with pytest.raises(TreeMissingError) as missing:
        await trees.layer(tree.digest, "/cache")
    assert await trees.lost(tree.digest, missing.value)
    fresh = seal_files(store, FILES)
    (fresh.directory / "inventory.json").write_text("{")
    assert not await trees.lost(tree.digest, damaged.value)
    assert store.layout.tree(tree.digest).is_dir()
    assert again == [tree.digest] * 2
    store.collect(keep={tree.digest})
    assert list(store.layout.damaged.iterdir()) == []


@pytest.mark.parametrize("what", ["a file of it", "its inventory"])
async def test_what_a_child_finds_damaged_is_called_so(
    store: Store, tree: SealedTree, child: Identity, what: str
) -> None:
    gone = tree.directory / "inventory.json" if what == "its inventory" else next(tree.path.rglob("__grp__*"))
    gone.unlink()
    with pytest.raises(TreeDamagedError):
        await trees_of(store, child).layer(tree.digest, "/cache")


async def test_a_path_that_no_cache_can_have_fails_with_the_childs_reason(
    store: Store, tree: SealedTree, child: Identity
) -> None:
    with pytest.raises(ExtractionFailedError) as refused:
        await trees_of(store, child).layer(tree.digest, "relative")
    assert refused.value.reason == "InvalidMountRoot"


START = "import json, os, sys\nr = json.load(sys.stdin)\nd = r['directory']\nos.makedirs(d + '/files')\n"
RECORD = "open(d + '/layer.json','w').write(json.dumps({'version':1,'root':r['root'],'files':0,'bytes':0}))\n"
DONE = 'print(\'{"event":"relocated","files":0,"bytes":0}\')'
LIARS = {
    "left nothing": DONE,
    "left no record": START + DONE,
    "made it for another path": START + RECORD.replace("r['root']", "'/other'") + DONE,
    "left a link": START + RECORD + "os.symlink('/etc/passwd', d + '/files/a')\n" + DONE,
    "left a second name": START + RECORD + "os.link(d + '/layer.json', d + '/../own')\n" + DONE,
    "left a pipe": START + RECORD + "os.mkfifo(d + '/files/a')\n" + DONE,
    "left more files": START + RECORD + "for n in 'abc': open(d + '/files/' + n, 'w')\n" + DONE,
    "left a file without end": START
    + RECORD
    + "os.truncate(open(d + '/files/a','w').fileno(), 1<<30)\n"
    + DONE,
    "says that it staged": 'print(\'{"event":"staged","digest":"d","bytes":1,"files":1}\')',
    "dies without a word": "os._exit(0)",
}


@pytest.mark.parametrize("lie", LIARS)
async def test_nothing_is_believed_of_a_child(
    store: Store, tree: SealedTree, child: Identity, lie: str
) -> None:
    trees = trees_of(store, child, program=(sys.executable, "-c", LIARS[lie]))
    with pytest.raises((ExtractionCrashedError, TreeRefusedError, TreeDamagedError)):
        await trees.layer(tree.digest, "/cache")
    assert all_layers(tree.directory) == []
