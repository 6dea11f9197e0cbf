"""The reason for all of it: the real Triton, in a view of a tree compiled elsewhere, compiles nothing again."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from gkm.caches.usage import count
from gkm.images.layout import LayoutRepository
from gkm.store.mode import Mode
from gkm.store.prepare import prepared_mount
from gkm.store.sealed import SealedTree
from gkm.store.session import run_in_view
from gkm.store.store import Store
from support import triton_cache
from support.staging import image_of, pack_into_layout

pytestmark = pytest.mark.triton

PROGRAM = Path(triton_cache.__file__).with_name("triton_program.py")
TARGETS = ["sm_80", "gfx942"]


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image of a cache that Triton wrote to a directory that is gone since."""
    compiled = tmp_path_factory.mktemp("compiled")
    report = triton_cache.compile_cache(compiled / "cache", TARGETS)
    assert len(report.compiled) == 4
    asyncio.run(pack_into_layout(compiled / "cache", compiled / "layout"))
    (compiled / "cache").rename(compiled / "elsewhere")
    return compiled / "layout"


def run_triton(
    store: Store, tree: SealedTree, mode: Mode, kernels: list[str], out: Path
) -> tuple[dict, tuple]:
    """Run the program in a view; returns what Triton's listener saw and (hits, misses) as the store saw them."""
    wanted = json.dumps({"targets": TARGETS, "kernels": kernels})
    with prepared_mount(store, tree, mode=mode) as prepared:
        argv = ["sh", "-c", '"$@" > "$OUT"', "sh", sys.executable, "-W", "ignore", str(PROGRAM), wanted]
        env = {**os.environ, "TRITON_CACHE_DIR": str(prepared.target), "OUT": str(out)}
        result = run_in_view(prepared, argv, env)
        assert result.exit_status == 0
        assert result.observation.kind == "complete"
        usage = count(tree.inventory, result.observation.opened, prepared.upper, prepared.lower)
    return json.loads(out.read_text()), (usage.hits, usage.misses)


def stage(store: Store, layout: Path) -> SealedTree:
    repository = LayoutRepository(layout)

    async def fetch() -> SealedTree:
        return await store.stage(repository, await image_of(repository, layout))

    return asyncio.run(fetch())


def test_every_kernel_hits_and_a_new_one_is_one_miss(
    store: Store, mode: Mode, layout: Path, tmp_path: Path
) -> None:
    tree = stage(store, layout)
    seen, counted = run_triton(store, tree, mode, ["add", "scale"], tmp_path / "out")
    assert seen["compiled"] == []
    assert len(seen["hits"]) == 4
    assert counted == (4, 0)
    seen, counted = run_triton(store, tree, mode, ["add", "total"], tmp_path / "out")
    assert sorted(seen["compiled"]) == ["total@80", "total@gfx942"]
    assert counted == (2, 2)
    assert store.verify(tree.digest) == ()
