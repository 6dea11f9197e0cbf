"""What a directory is recognised as, and what is read from it."""

import json
import shutil
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gkm.base.errors import UsageError
from gkm.caches.model import Entry, Inventory, Target
from gkm.caches.relocation import relocate
from gkm.caches.scan import scan
from support.made_caches import (
    AUTOGRAD_KEY,
    CODE_NAME,
    GRAPH_KEY,
    artifact,
    elf,
    inductor_cache,
    key,
    triton_entry,
    vllm_cache,
    write,
)

SM80 = Target(backend="cuda", arch="sm_80", warp_size=32)


def entry(inventory: Inventory, path: str) -> Entry:
    return next(e for f in inventory.formats for e in f.entries if e.path == path)


def formats(inventory: Inventory) -> list[tuple[str, str]]:
    return [(found.format, found.root) for found in inventory.formats]


def test_a_directory_without_a_cache_has_no_formats_but_its_files(tmp_path: Path) -> None:
    write(tmp_path / "README", "hello")

    inventory = scan(tmp_path)

    assert (inventory.formats, inventory.files, inventory.bytes) == ((), ("README",), 5)


def test_what_is_no_directory_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        scan(tmp_path / "absent")


class TestTriton:
    def test_an_entry_has_its_files_target_toolchain_and_payload(self, tmp_path: Path) -> None:
        triton_entry(tmp_path / key("k"), stood_at="/old/cache/" + key("k"))

        inventory = scan(tmp_path)

        assert formats(inventory) == [("triton", ".")]
        (found,) = inventory.entries
        assert (found.path, found.name, found.format) == (key("k"), "add", "triton")
        assert set(found.files) == set(inventory.files)
        assert found.payload == (f"{key('k')}/add.cubin",)
        assert found.bytes == inventory.bytes
        assert found.targets == (SM80,)
        assert found.toolchain.triton == "3.9.0"
        (relocatable,) = inventory.formats[0].relocatable
        assert (relocatable.file, relocatable.root) == (f"{key('k')}/__grp__add.json", "/old/cache")

    @pytest.mark.parametrize(
        ("backend", "arch", "warp_size", "expected"),
        [
            ("cuda", 75, 32, Target(backend="cuda", arch="sm_75", warp_size=32)),
            ("cuda", "sm90", 32, Target(backend="cuda", arch="sm_90", warp_size=32)),
            ("rocm", "gfx90a:sramecc+:xnack-", 64, Target(backend="hip", arch="gfx90a", warp_size=64)),
        ],
    )
    def test_targets_are_told_in_one_way(
        self, tmp_path: Path, backend: str, arch: int | str, warp_size: int, expected: Target
    ) -> None:
        triton_entry(tmp_path / key("k"), backend=backend, arch=arch, warp_size=warp_size)

        assert scan(tmp_path).targets == (expected,)

    def test_launchers_and_utilities_are_helpers_with_their_host_and_abi(self, tmp_path: Path) -> None:
        triton_entry(tmp_path / key("k"))
        launcher = "__triton_launcher.cpython-312-x86_64-linux-gnu.so"
        write(tmp_path / key("l") / launcher, elf(62))
        write(tmp_path / key("m") / "add.autotune.json", "{}")

        inventory = scan(tmp_path)

        helper = entry(inventory, key("l"))
        assert helper.helper
        assert helper.name == launcher
        assert helper.targets == (Target(backend="cpu", arch="x86_64", warp_size=0),)
        assert helper.toolchain.python == "cpython-312-x86_64-linux-gnu"
        assert entry(inventory, key("m")).helper
        assert [e.path for e in inventory.entries] == [key("k")]
        assert inventory.targets == (SM80,)

    def test_an_entry_without_code_files_is_shown_used_by_its_metadata(self, tmp_path: Path) -> None:
        triton_entry(tmp_path / key("k"))
        (tmp_path / key("k") / "add.cubin").unlink()

        assert scan(tmp_path).entries[0].payload == (f"{key('k')}/add.json",)

    def test_without_readable_metadata_the_code_tells_the_target(self, tmp_path: Path) -> None:
        triton_entry(tmp_path / key("k"), backend="hip", arch="gfx942", warp_size=64)
        write(tmp_path / key("k") / "add.json", "not JSON")
        write(tmp_path / key("k") / "add.hsaco", elf(224, 0x54C, 3))

        assert scan(tmp_path).targets == (Target(backend="hip", arch="gfx942", warp_size=64),)

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"[]",
            b"\xff\xfe",
            b"[" * 100_000,
            b'{"child_paths": ["add.cubin"]}',
            b'{"child_paths": {"add.cubin": 7, "x": null}}',
            b'{"child_paths": {"add.cubin": "/elsewhere/unknown.cubin"}}',
            b"1" * 6000,
        ],
    )
    def test_a_broken_group_is_an_entry_that_cannot_be_relocated(
        self, tmp_path: Path, content: bytes
    ) -> None:
        triton_entry(tmp_path / key("k"))
        write(tmp_path / key("k") / "__grp__add.json", content)

        inventory = scan(tmp_path)

        assert len(inventory.entries) == 1
        assert inventory.formats[0].relocatable == ()

    @pytest.mark.parametrize(
        "target",
        [None, 7, {}, {"backend": "cuda"}, {"backend": "cuda", "arch": "x" * 1000, "warp_size": 32},
         {"backend": "a b\x1b", "arch": 1, "warp_size": 32}, {"backend": "cuda", "arch": 80, "warp_size": -1}],
    )  # fmt: skip
    def test_a_hostile_target_is_no_target(self, tmp_path: Path, target: object) -> None:
        triton_entry(tmp_path / key("k"), target=target)

        assert scan(tmp_path).targets == ()

    def test_a_tree_put_together_since_names_the_directory_that_the_cache_stood_in(
        self, tmp_path: Path
    ) -> None:
        triton_entry(tmp_path / "mine" / key("k"), stood_at="/home/u/.triton/cache/" + key("k"))

        (found,) = scan(tmp_path).formats

        assert (found.root, found.relocatable[0].root) == ("mine", "/home/u/.triton/cache")


class TestInductor:
    def test_graphs_libraries_and_text_modules(self, tmp_path: Path) -> None:
        inductor_cache(tmp_path)

        inventory = scan(tmp_path)

        assert formats(inventory) == [("inductor", ".")]
        assert [e.path for e in inventory.entries] == [
            f"aotautograd/{AUTOGRAD_KEY}",
            f"d6/{CODE_NAME}.so",
            f"fxgraph/kh/{GRAPH_KEY}",
        ]
        library = entry(inventory, f"d6/{CODE_NAME}.so")
        assert library.files == (f"d6/{CODE_NAME}.cpp", f"d6/{CODE_NAME}.so")
        assert library.payload == (f"d6/{CODE_NAME}.so",)
        assert library.targets == (Target(backend="cpu", arch="x86_64", warp_size=0),)
        assert entry(inventory, f"fxgraph/kh/{GRAPH_KEY}").toolchain.torch == "2.13.0+cpu"
        assert [e.helper for e in inventory.formats[0].entries if e.path.startswith("3g/")] == [True]
        assert f"locks/{CODE_NAME}.lock" in inventory.files

    def test_its_absolute_paths_are_named_with_the_reason(self, tmp_path: Path) -> None:
        inductor_cache(tmp_path, stood_at="/data/inductor")

        named = scan(tmp_path).formats[0].unrelocatable

        assert {(path.path, path.reason.partition(":")[0]) for path in named} == {
            ("/data/inductor", "inside a pickle"),
            ("/data/inductor", "in a comment of generated code"),
        }

    def test_triton_entries_below_it_are_listed_with_it(self, tmp_path: Path) -> None:
        inductor_cache(tmp_path / "torch")
        triton_entry(tmp_path / "torch" / "triton" / "0" / key("k"))

        inventory = scan(tmp_path)

        assert formats(inventory) == [("inductor", "torch")]
        assert entry(inventory, f"torch/triton/0/{key('k')}").format == "triton"
        assert [r.format for r in inventory.formats[0].relocatable] == ["triton"]

    @pytest.mark.parametrize("name", ["d7", "D6", "d6x"])
    def test_code_in_a_directory_that_does_not_match_its_hash_is_no_cache(
        self, tmp_path: Path, name: str
    ) -> None:
        write(tmp_path / name / f"{CODE_NAME}.py", "x = 1")

        assert scan(tmp_path).formats == ()


class TestVllm:
    def test_artifacts_have_targets_versions_and_keys(self, tmp_path: Path) -> None:
        vllm_cache(tmp_path)

        inventory = scan(tmp_path)

        assert formats(inventory) == [("vllm", ".")]
        assert len(inventory.entries) == 2
        found = inventory.entries[0]
        assert found.name == "artifact_compile_range_1_2048_subgraph_0"
        assert found.payload == found.files == (found.path,)
        assert found.targets == (Target(backend="cuda", arch="sm_75", warp_size=32),)
        assert (found.toolchain.triton, found.toolchain.cuda) == ("3.5.1", "12.9")
        assert dict(found.toolchain.keys) == {
            "code_hash": "c0de",
            "compiler_hash": "4fc2f2ae9e",
            "config_hash": "2a38",
            "target_device": "cuda",
            "torch_key": bytes(range(32)).hex(),
        }

    def test_nothing_of_the_environment_but_two_facts_is_kept(self, tmp_path: Path) -> None:
        vllm_cache(tmp_path)

        assert b"secret" not in msgspec.json.encode(scan(tmp_path))

    def test_the_index_is_relocatable_and_the_artifacts_are_not(self, tmp_path: Path) -> None:
        vllm_cache(tmp_path / "vllm", stood_at="/home/ec2-user/.cache/vllm")

        (found,) = scan(tmp_path).formats

        assert (found.root, found.relocatable[0].root) == ("vllm", "/home/ec2-user/.cache")
        assert found.relocatable[0].file.endswith("/vllm_compile_cache.py")
        (path,) = found.unrelocatable
        assert path.path == "/tmp/torchinductor_u"
        assert path.reason.startswith("inside a checksummed artifact")
        assert path.reason.endswith("(and in 1 more)")

    def test_a_damaged_artifact_is_an_entry_without_a_torch_key(self, tmp_path: Path) -> None:
        vllm_cache(tmp_path, subgraphs=1)
        (file,) = tmp_path.rglob("artifact_*")
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)

        (found,) = scan(tmp_path).entries

        assert "torch_key" not in dict(found.toolchain.keys)

    def test_an_unpacked_artifact_is_one_entry_with_the_targets_inside(self, tmp_path: Path) -> None:
        rank = tmp_path / "torch_compile_cache" / "abc" / "rank_0_0" / "backbone"
        inductor_cache(rank / "artifact_compile_range_1_8_subgraph_0")
        triton_entry(rank / "artifact_compile_range_1_8_subgraph_0" / "triton" / "0" / key("k"))

        inventory = scan(tmp_path)

        assert formats(inventory) == [("vllm", ".")]
        (found,) = inventory.formats[0].entries
        assert found.path.endswith("subgraph_0")
        assert found.files == inventory.files
        assert SM80 in found.targets
        assert len(inventory.formats[0].relocatable) == 1
        reasons = {path.reason.partition(":")[0] for path in inventory.formats[0].unrelocatable}
        assert reasons == {"inside a pickle", "in a comment of generated code"}

    def test_the_legacy_layout_lists_the_entries_of_the_caches_inside(self, tmp_path: Path) -> None:
        rank = tmp_path / "torch_compile_cache" / "abc" / "rank_0_0"
        inductor_cache(rank / "inductor_cache")
        triton_entry(rank / "triton_cache" / key("k"))

        (found,) = scan(tmp_path).formats

        assert (found.format, found.root) == ("vllm", ".")
        assert {e.format for e in found.entries} == {"inductor", "triton"}

    def test_a_model_compiled_ahead_of_time_is_an_entry(self, tmp_path: Path) -> None:
        base = "torch_compile_cache/torch_aot_compile/" + "0" * 64
        write(tmp_path / base / "rank_0_0" / "model", artifact(b"") + elf(190, 0x500550, 7))

        (found,) = scan(tmp_path).entries

        assert found.path == f"{base}/rank_0_0/model"
        assert found.targets == (SM80,)

    def test_a_rank_without_an_entry_is_no_cache(self, tmp_path: Path) -> None:
        write(tmp_path / "torch_compile_cache" / "abc" / "rank_0_0" / "computation_graph.py", "x = 1")

        assert scan(tmp_path).formats == ()

    @pytest.mark.parametrize(
        "content", [b"", b"\xff", b"{", b"(" * 5000, b"__import__('os')", b"{1: 2}", b"[('a', '/b')]"]
    )
    def test_an_index_that_is_no_such_literal_cannot_be_relocated(
        self, tmp_path: Path, content: bytes
    ) -> None:
        vllm_cache(tmp_path, subgraphs=1)
        (file,) = tmp_path.rglob("vllm_compile_cache.py")
        file.write_bytes(content)

        assert scan(tmp_path).formats[0].relocatable == ()


def test_formats_side_by_side_are_listed_apart(tmp_path: Path) -> None:
    inductor_cache(tmp_path / "inductor")
    triton_entry(tmp_path / "triton" / key("k"))
    vllm_cache(tmp_path / "vllm")

    assert formats(scan(tmp_path)) == [("inductor", "inductor"), ("triton", "triton"), ("vllm", "vllm")]


def test_an_entrys_path_is_unique_and_its_payload_is_among_its_files(tmp_path: Path) -> None:
    inductor_cache(tmp_path / "inductor")
    triton_entry(tmp_path / "inductor" / "triton" / "0" / key("k"))
    vllm_cache(tmp_path / "vllm")

    entries = [e for f in scan(tmp_path).formats for e in f.entries]

    assert len({e.path for e in entries}) == len(entries)
    assert all(set(e.payload) <= set(e.files) for e in entries)
    files = [file for e in entries for file in e.files]
    assert len(set(files)) == len(files)


PARTS = [
    "fxgraph", "aotautograd", "kh", "d6", "triton", "0", "torch_compile_cache", "torch_aot_compile", "abc",
    "rank_0_0", "backbone", "artifact_x_subgraph_0", "inductor_cache", GRAPH_KEY, AUTOGRAD_KEY, key("k"),
]  # fmt: skip
NAMES = [
    "__grp__add.json", "add.json", "add.cubin", "launcher.so", f"{CODE_NAME}.py", f"{CODE_NAME}.so", "model",
    "vllm_compile_cache.py", "cache_key_factors.json", "entry", "artifact_y_subgraph_1", "add.autotune.json",
]  # fmt: skip
CONTENTS = [
    b"",
    b"{}",
    b'{"child_paths": {"add.cubin": "/x/add.cubin"}}',
    elf(190, 0x500550, 7),
    artifact(b""),
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.tuples(st.lists(st.sampled_from(PARTS), max_size=5), st.sampled_from(NAMES)).map(
            lambda path: "/".join((*path[0], path[1]))
        ),
        st.sampled_from(CONTENTS),
        max_size=12,
    )
)
def test_any_tree_has_disjoint_entries_below_their_roots(tmp_path: Path, files: dict[str, bytes]) -> None:
    tree = tmp_path / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    for path, content in files.items():
        if not any((tree / above).is_file() for above in Path(path).parents) and not (tree / path).is_dir():
            write(tree / path, content)

    inventory = scan(tree)

    owned = [file for f in inventory.formats for e in f.entries for file in e.files]
    assert len(set(owned)) == len(owned)
    assert set(owned) <= set(inventory.files)
    for found in inventory.formats:
        assert found.entries
        for e in found.entries:
            assert e.payload
            assert set(e.payload) <= set(e.files)
            assert found.root == "." or e.path.startswith(found.root + "/")
        assert {r.file for r in found.relocatable} <= set(inventory.files)
    list(relocate(tree, inventory, "/view"))


def test_an_inventory_survives_its_journey_as_json(tmp_path: Path) -> None:
    vllm_cache(tmp_path / "vllm")
    triton_entry(tmp_path / "triton" / key("k"))
    inventory = scan(tmp_path)

    data = msgspec.json.encode(inventory)

    assert msgspec.json.decode(data, type=Inventory) == inventory
    assert json.loads(data)["formats"][0]["entries"][0]["targets"][0]["warpSize"] == 32
