"""kill -9 of the agent at every step of staging that touches the disk, and of its child: a whole tree or none.

The child here copies a tree that was sealed before: what is killed is the agent.
"""

import asyncio
import fcntl
import sys
from pathlib import Path

import pytest

from gkm.agent.child import Extractor
from gkm.agent.messages import ExtractRequest
from gkm.agent.stage import stage
from gkm.agent.state import NodeState
from gkm.agent.trees import Trees
from gkm.images.layout import LayoutRepository
from gkm.store.layers import all_layers, find_layer
from gkm.store.store import Store
from support.kills import killed_at_each_step
from support.staging import image_of, pack_into_layout, write_files
from support.views import everything, seal_files, triton_files

FILES = triton_files("add") | {"ADD" + "A" * 49 + "/same": b"x"}
CHILD = """
import ctypes, fcntl, json, os, shutil, sys
alive = open(sys.argv[2], "w")
fcntl.flock(alive, fcntl.LOCK_EX)
ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
if os.getppid() != int(sys.argv[4]):
    sys.exit(1)
request = json.load(sys.stdin)
os.makedirs(request["directory"] + "/trees")
shutil.copytree(sys.argv[1], request["directory"] + "/trees/" + os.path.basename(sys.argv[1]))
print(json.dumps({"event": "staged", "digest": "", "bytes": 0, "files": 0}))
"""


RELOCATING = """
import ctypes, fcntl, json, os, sys
from pathlib import Path
alive = open(sys.argv[1], "w")
fcntl.flock(alive, fcntl.LOCK_EX)
ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
if os.getppid() != int(sys.argv[3]):
    sys.exit(1)
request = json.load(sys.stdin)
from gkm.store.relocated import build_layer
from gkm.store.sealed import read_tree
tree = read_tree(Path(sys.argv[4]))
made = build_layer(
    tree.path, tree.inventory, request["root"], Path(request["directory"]), limit_bytes=request["limitBytes"]
)
print(json.dumps({"event": "relocated", "files": made.files, "bytes": made.bytes}))
"""


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_an_agent_killed_at_any_step_of_staging(open_path: Path) -> None:
    layout = open_path / "layout"
    asyncio.run(pack_into_layout(write_files(open_path / "tree", FILES), layout))
    repository = LayoutRepository(layout)
    image = asyncio.run(image_of(repository, layout))
    digest = image.descriptor.digest
    template = asyncio.run(Store.open(open_path / "template").stage(repository, image))
    alive = open_path / "alive"
    extractor = Extractor(None, (sys.executable, "-c", CHILD, str(template.directory), str(alive)))
    root = open_path / "store"
    Store.open(root)

    async def work() -> None:
        def request(directory: Path) -> ExtractRequest:
            return ExtractRequest(directory=str(directory), image=f"registry.example/a@{digest}")

        await stage(store.layout, extractor, digest, request, lambda _: None)

    whole, store = 0, Store.open(root)
    for step in killed_at_each_step(lambda: asyncio.run(work()), at_least=15):
        with alive.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the child is gone too
        store = Store.open(root)
        assert list(store.layout.staging.iterdir()) == [], step
        assert [p for p in store.layout.trash.iterdir() if p.name != ".lock"] == [], step
        tree = store.tree(digest)
        if tree is not None:
            whole += 1
            assert store.verify(digest) == (), step
            assert everything(tree.path) == FILES, step
            store.collect()
    assert whole >= 1, "no kill fell between the rename and the end"
    assert everything(Store.open(root).trees()[0].path) == FILES


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_an_agent_killed_at_any_step_of_relocating(open_path: Path) -> None:
    root, alive = open_path / "store", open_path / "alive"
    store = Store.open(root)
    tree = seal_files(store, FILES)
    extractor = Extractor(None, (sys.executable, "-c", RELOCATING, str(alive)))

    async def work() -> None:
        trees = Trees(store, extractor, NodeState(), again=lambda _: None)
        await trees.layer(tree.digest, "/cache")

    whole = 0
    for step in killed_at_each_step(lambda: asyncio.run(work()), at_least=15):
        with alive.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the child is gone too
        store = Store.open(root)
        assert list(store.layout.staging.iterdir()) == [], step
        assert [p for p in store.layout.trash.iterdir() if p.name != ".lock"] == [], step
        layer = find_layer(tree, "/cache")
        if layer is not None:
            whole += 1
            assert len(everything(layer.lower_directories()[0])) == 1, step
        store.collect(keep={tree.digest}, layers_unused_seconds=-1)
        assert all_layers(tree.directory) == []
    assert whole >= 1, "no kill fell between the rename and the end"
    assert everything(tree.path) == FILES
    assert find_layer(tree, "/cache") is not None
