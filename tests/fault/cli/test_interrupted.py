"""Ctrl-C in the middle of the work: a status, a word, and nothing half-made."""

import asyncio
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

from gkm.images.pack import pack
from support.command import GKM
from support.fault_registry import REPOSITORY, fault_registry
from support.fault_server import stall
from support.images import SmallImage


async def interrupted(arguments: list[str], reached: Callable[[], bool], store: Path) -> tuple[int, str]:
    """Start gkm, press Ctrl-C once `reached`; its status and what it said."""
    process = await asyncio.create_subprocess_exec(
        # Where the tests run in the background, Ctrl-C is ignored, and children inherit that.
        "env",
        "--default-signal=INT",
        GKM,
        *arguments,
        env={**os.environ, "GKM_STORE": str(store)},
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        while not reached():
            await asyncio.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, said = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


def real_image(scratch: Path) -> SmallImage:
    """An image that can be unpacked, with a layer too long to arrive at once."""
    files = {"io.triton.cache/ENTRY/kernel.cubin": random.Random(1).randbytes(1 << 20)}
    packed = pack(files, labels={}, title=None, compression="gzip", into=scratch)
    return SmallImage(packed.manifest, {blob.digest: path.read_bytes() for blob, path in packed.blobs})


async def test_a_pull_leaves_no_tree_and_no_staging(tmp_path: Path) -> None:
    image = real_image(tmp_path)
    [layer] = image.layers
    async with fault_registry() as registry:
        registry.add(image)
        registry.always(
            "GET", "blobs/" + layer.digest, lambda _: stall(200, image.blobs[layer.digest], 300_000)
        )
        status, said = await interrupted(
            ["pull", f"{registry.host}/{REPOSITORY}:v1"],
            lambda: registry.count("GET", "blobs/" + layer.digest) > 0,
            tmp_path / "store",
        )
    assert status == 130, said
    assert "Traceback" not in said
    assert [
        path for name in ("trees", "staging", "mounts") for path in (tmp_path / "store" / name).iterdir()
    ] == []


async def test_an_unpacking_leaves_no_directory(tmp_path: Path) -> None:
    image = real_image(tmp_path)
    [layer] = image.layers
    async with fault_registry() as registry:
        registry.add(image)
        registry.always(
            "GET", "blobs/" + layer.digest, lambda _: stall(200, image.blobs[layer.digest], 300_000)
        )
        status, said = await interrupted(
            ["unpack", f"{registry.host}/{REPOSITORY}:v1", str(tmp_path / "out" / "here")],
            lambda: registry.count("GET", "blobs/" + layer.digest) > 0,
            tmp_path / "store",
        )
    assert status == 130, said
    assert "Traceback" not in said
    assert list((tmp_path / "out").iterdir()) == []
