"""Staging by gkm-extract out of a real registry, and what the agent takes over."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gkm.agent.child import PROGRAM, Extractor
from gkm.agent.confinement import Identity
from gkm.agent.errors import ExtractionCrashedError, ExtractionFailedError, TreeRefusedError
from gkm.agent.messages import ExtractRequest, Moved
from gkm.agent.stage import stage
from gkm.store.layers import all_layers, find_layer
from gkm.store.sealed import SealedTree
from gkm.store.store import Store
from support.cached_images import publish
from support.made_caches import key
from support.registry import PASSWORD, USERNAME, RunningRegistry, running_registry

pytestmark = pytest.mark.root


async def staged(
    store: Store, image: str, child: Identity, *, program: tuple[str, ...] = PROGRAM, **more: object
) -> tuple[SealedTree, list[Moved]]:
    events: list[Moved] = []
    digest = image.partition("@")[2]

    def request(directory: Path) -> ExtractRequest:
        return ExtractRequest(directory=str(directory), image=image, **more)  # type: ignore[arg-type]

    tree = await stage(store.layout, Extractor(child, program), digest, request, events.append)
    return tree, events


async def test_a_tree_is_whole_and_roots_own(
    store: Store, registry: RunningRegistry, tmp_path: Path, child: Identity
) -> None:
    digest = await publish(registry.host, tmp_path, "A", "B")
    tree, events = await staged(store, f"{registry.host}/kernels/vector-add@{digest}", child)
    assert tree.digest == digest
    assert store.verify(digest) == ()
    assert [entry.path for entry in tree.inventory.entries] == [key("A"), key("B")]
    assert events[-1].bytes == events[-1].total > 0
    for path in [tree.directory, *tree.directory.rglob("*")]:
        assert (path.lstat().st_uid, path.lstat().st_gid) == (os.geteuid(), os.getegid()), path


async def test_layers_for_paths_known_ahead_come_with_the_tree(
    store: Store, registry: RunningRegistry, tmp_path: Path, child: Identity
) -> None:
    digest = await publish(registry.host, tmp_path, "K")
    image = f"{registry.host}/kernels/vector-add@{digest}"
    tree, _ = await staged(store, image, child, roots=("/one", "no path at all", "/two"))
    found = {root: find_layer(tree, root) for root in ("/one", "/two")}
    assert store.relocated(tree, "/one") == found["/one"] is not None
    assert store.relocated(tree, "/two") == found["/two"] is not None
    assert len(all_layers(tree.directory)) == 2
    for path in tree.directory.rglob("*"):
        assert (path.lstat().st_uid, path.lstat().st_gid) == (os.geteuid(), os.getegid()), path


async def test_what_is_here_is_not_fetched_again_and_two_at_once_are_one_pull(
    store: Store, registry: RunningRegistry, tmp_path: Path, child: Identity
) -> None:
    digest = await publish(registry.host, tmp_path, "C")
    image = f"{registry.host}/kernels/vector-add@{digest}"
    (_, first), (_, second) = await asyncio.gather(staged(store, image, child), staged(store, image, child))
    assert sorted([bool(first), bool(second)]) == [False, True]
    _, third = await staged(store, image, child)
    assert third == []


async def test_a_tree_whose_record_is_damaged_is_fetched_again(
    store: Store, registry: RunningRegistry, tmp_path: Path, child: Identity
) -> None:
    digest = await publish(registry.host, tmp_path, "L")
    image = f"{registry.host}/kernels/vector-add@{digest}"
    tree, _ = await staged(store, image, child)
    (tree.directory / "record.json").write_text("{")
    _, events = await staged(store, image, child)
    assert events
    assert store.verify(digest) == ()


async def test_a_private_registry_needs_the_pull_secret(
    store: Store, tmp_path: Path, child: Identity
) -> None:
    import base64
    import json

    from gkm.images.auth_config import Credentials
    from gkm.images.options import ClientOptions

    class Known:
        async def find(self, host: str, repository: str) -> Credentials:
            return Credentials(USERNAME, PASSWORD)

    with running_registry(tmp_path, htpasswd=True) as private:
        digest = await publish(private.host, tmp_path, "D", options=ClientOptions(credentials=Known()))
        image = f"{private.host}/kernels/vector-add@{digest}"
        with pytest.raises(ExtractionFailedError) as refused:
            await staged(store, image, child)
        assert refused.value.reason == "Unauthorized"
        token = base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode()
        auth = json.dumps({"auths": {private.host: {"auth": token}}})
        tree, _ = await staged(store, image, child, auth=auth)
        assert tree.digest == digest


async def test_the_disk_budget_bounds_what_an_image_unpacks_to(
    store: Store, registry: RunningRegistry, tmp_path: Path, child: Identity
) -> None:
    digest = await publish(registry.host, tmp_path, "E")
    with pytest.raises(ExtractionFailedError) as refused:
        await staged(store, f"{registry.host}/kernels/vector-add@{digest}", child, limit_bytes=100)
    assert refused.value.reason == "TooManyBytes"
    assert store.tree(digest) is None


async def test_a_full_disk_is_told_in_the_same_words_each_time(
    open_path: Path, registry: RunningRegistry, tmp_path: Path, child: Identity
) -> None:
    digest = await publish(registry.host, tmp_path, *"ABCDEFGHIJ")
    small = open_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k,mode=755", "gkm-test", small], check=True)
    try:
        store = Store.open(small / "store")
        told = set()
        for _ in range(2):
            with pytest.raises(ExtractionFailedError) as refused:
                await staged(store, f"{registry.host}/kernels/vector-add@{digest}", child)
            told.add((refused.value.reason, str(refused.value)))
        ((reason, message),) = told
        assert (reason, str(store.layout.root) in message) == ("StoreFull", True)
        assert list(store.layout.staging.iterdir()) == []
    finally:
        subprocess.run(["umount", small], check=True)


async def test_a_missing_image_fails_with_the_registrys_reason(
    store: Store, registry: RunningRegistry, child: Identity
) -> None:
    with pytest.raises(ExtractionFailedError) as missing:
        await staged(store, f"{registry.host}/kernels/none@sha256:{'0' * 64}", child)
    assert missing.value.reason == "NotFound"


LIARS = {
    "says it is staged and left nothing": 'print(\'{"event":"staged","digest":"d","bytes":1,"files":1}\')',
    "leaves a link": (
        "d = p + '/trees/' + g\n"
        "os.makedirs(d)\n"
        "os.symlink('/etc/passwd', d + '/record.json')\n"
        'print(\'{"event":"staged","digest":"d","bytes":1,"files":1}\')'
    ),
    "leaves a named pipe": (
        "d = p + '/trees/' + g\n"
        "os.makedirs(d)\n"
        "os.mkfifo(d + '/record.json')\n"
        'print(\'{"event":"staged","digest":"d","bytes":1,"files":1}\')'
    ),
    "leaves a link in the tree's place": (
        "os.makedirs(p + '/trees')\n"
        "os.symlink('/etc', p + '/trees/' + g)\n"
        'print(\'{"event":"staged","digest":"d","bytes":1,"files":1}\')'
    ),
    "leaves directories without end": (
        "d = p + '/trees/' + g\n"
        "for _ in range(300):\n"
        "    os.makedirs(d)\n"
        "    os.chdir(d)\n"
        "    d = 'deeper'\n"
        'print(\'{"event":"staged","digest":"d","bytes":1,"files":1}\')'
    ),
    "writes rubbish": "print('rubbish')",
    "writes a line without an end": "sys.stdout.write('x' * 200000)",
    "dies without a word": "os._exit(0)",
    "is killed": "os.kill(os.getpid(), 9)",
    "says it is staged and fails": (
        'print(\'{"event":"staged","digest":"d","bytes":1,"files":1}\', flush=True)\nsys.exit(1)'
    ),
}


@pytest.mark.parametrize("lie", LIARS)
async def test_nothing_is_believed_of_a_child(store: Store, child: Identity, lie: str) -> None:
    digest = f"sha256:{'1' * 64}"
    script = (
        "import json, os, sys\n"
        "r = json.load(sys.stdin)\n"
        "p, g = r['directory'], r['image'].partition('@')[2].replace(':', '-')\n" + LIARS[lie]
    )
    with pytest.raises((ExtractionCrashedError, TreeRefusedError)):
        await staged(store, f"registry.example/a@{digest}", child, program=(sys.executable, "-c", script))
    assert store.tree(digest) is None


async def test_a_silent_child_is_ended(store: Store, child: Identity) -> None:
    program = (sys.executable, "-c", "import time; time.sleep(1000)")
    digest = f"sha256:{'2' * 64}"
    silent = Extractor(child, program, silent_seconds=0.2)
    request = ExtractRequest(directory="/nonexistent", image="registry.example/a")
    with pytest.raises(ExtractionCrashedError, match="no sign of life"):
        await stage(store.layout, silent, digest, lambda _: request, lambda _: None)


async def test_a_program_that_is_not_there_is_an_error(store: Store, child: Identity) -> None:
    with pytest.raises(ExtractionCrashedError, match="cannot be started"):
        await staged(store, f"registry.example/a@sha256:{'3' * 64}", child, program=("/nonexistent",))
