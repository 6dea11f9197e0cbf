"""Real caches that other people's hardware made: recognised, read, and relocated where their format allows it."""

import json
import tarfile
from pathlib import Path

import pytest

from gkm.caches.model import Inventory, Target
from gkm.caches.relocation import relocate
from gkm.caches.scan import scan
from support.parts import samples
from support.samples import extract


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("samples")
    found = {}
    for archive in sorted(samples().glob("*-cache.tar.xz")):
        name = archive.name.removesuffix(".tar.xz")
        with tarfile.open(archive) as tar:
            extract(tar, directory / name)
        (found[name],) = (directory / name).iterdir()
    return found


def counts(inventory: Inventory) -> dict[str, int]:
    formats = [entry.format for entry in inventory.entries]
    return {name: formats.count(name) for name in sorted(set(formats))}


def test_the_triton_cache_of_a_t4(unpacked: dict[str, Path]) -> None:
    inventory = scan(unpacked["vector-add-cache"])

    assert (len(inventory.files), inventory.bytes) == (9, 72_152)
    assert inventory.targets == (Target(backend="cuda", arch="sm_75", warp_size=32),)
    (found,) = inventory.formats
    assert [(e.name, e.helper) for e in found.entries] == [
        ("add_kernel", False),
        ("cuda_utils.so", True),
        ("__triton_launcher.so", True),
    ]
    assert found.relocatable[0].root == "/opt/app-root/src/.triton/cache"


def test_the_legacy_vllm_cache_of_an_mi210(unpacked: dict[str, Path]) -> None:
    inventory = scan(unpacked["vllm-cache"])

    assert (len(inventory.files), inventory.bytes) == (82, 2_255_554)
    assert inventory.targets == (Target(backend="hip", arch="gfx90a", warp_size=64),)
    assert counts(inventory) == {"inductor": 28, "triton": 6}
    (found,) = inventory.formats
    assert (found.format, found.root) == ("vllm", ".")
    assert {r.root for r in found.relocatable} == {"/home/vllm/.cache/vllm"}
    assert len(found.relocatable) == 7
    assert {u.path for u in found.unrelocatable} == {
        "/home/vllm/.cache/vllm",
        "/usr/local/lib/python3.12/dist-packages",
    }


def test_the_binary_vllm_cache_of_a_t4(unpacked: dict[str, Path]) -> None:
    inventory = scan(unpacked["llama-binary-cache"])

    assert (len(inventory.files), inventory.bytes) == (21, 35_691_852)
    assert counts(inventory) == {"vllm": 17}
    assert {e.targets for e in inventory.entries} == {(Target(backend="cuda", arch="sm_75", warp_size=32),)}
    assert {(e.toolchain.triton, e.toolchain.torch, e.toolchain.cuda) for e in inventory.entries} == {
        ("3.5.1", "2.9.1+cu128", "12.9")
    }
    assert all(dict(e.toolchain.keys).keys() >= {"torch_key", "compiler_hash"} for e in inventory.entries)
    (found,) = inventory.formats
    assert [r.root for r in found.relocatable] == ["/home/ec2-user/.cache/vllm"]
    assert "/tmp/torchinductor_ec2-user" in {u.path for u in found.unrelocatable}


def test_the_inductor_cache_of_a_cpu(unpacked: dict[str, Path]) -> None:
    inventory = scan(unpacked["inductor-cpu-cache"])

    assert len(inventory.files) == 33
    assert inventory.targets == (Target(backend="cpu", arch="x86_64", warp_size=0),)
    assert counts(inventory) == {"inductor": 12}
    assert {e.toolchain.torch for e in inventory.entries} == {None, "2.13.0+cpu"}
    assert "/workspace/.cache/inductor" in {u.path for f in inventory.formats for u in f.unrelocatable}


@pytest.mark.parametrize("name", ["vector-add-cache", "vllm-cache", "llama-binary-cache"])
def test_relocated_every_path_into_the_cache_can_be_opened(unpacked: dict[str, Path], name: str) -> None:
    tree = unpacked[name]
    inventory = scan(tree)

    moved = dict(relocate(tree, inventory, "/some/view"))

    assert set(moved) == {r.file for f in inventory.formats for r in f.relocatable}
    named = 0
    for file, content in moved.items():
        text = content.decode()
        assert not any(r.root in text for f in inventory.formats for r in f.relocatable if r.file == file)
        for part in text.replace('"', "'").split("'"):
            if part.startswith("/some/view/"):
                assert (tree / part.removeprefix("/some/view/")).is_file()
                named += 1
    assert named >= len(moved)


def test_the_environment_of_whoever_compiled_is_not_in_the_inventory(unpacked: dict[str, Path]) -> None:
    tree = unpacked["llama-binary-cache"]
    (factors,) = tree.rglob("cache_key_factors.json")
    environment = json.loads(factors.read_text())["env"]
    told = {environment.pop("VLLM_CONFIG_ROOT"), environment.pop("VLLM_XLA_CACHE_PATH")}

    inventory = scan(tree)
    record = repr(inventory)

    assert told <= {path.path for found in inventory.formats for path in found.unrelocatable}
    assert len(environment) > 100
    assert not [name for name in environment if name in record]
    assert "localhost" in environment.values()
    assert "localhost" not in record
