"""The manifest.json in an image: MCV's list, our record, and no values of anyone's environment."""

import json

from gkm.caches.image_paths import manifests
from gkm.caches.model import FormatInventory, RelocatableFile, Target, Toolchain
from support.inventories import GFX90A, SM_75, SM_90, TRITON_HASH, TRITON_NAME, entry, inventory


def test_a_triton_cache_is_listed_as_mcv_lists_it_and_recorded_whole() -> None:
    kernel = entry(TRITON_NAME, SM_90, toolchain=Toolchain(triton="3.9.0"))
    suffixed = entry(TRITON_HASH, Target("cuda", "sm_90a", 32))
    strange = entry("not-base32!", GFX90A)
    launcher = entry("LAUNCHER", helper=True)
    owned = FormatInventory(
        "triton",
        ".",
        (kernel, suffixed, strange, launcher),
        relocatable=(RelocatableFile(f"{TRITON_NAME}/__grp__add.json", "triton", "/workspace/cache"),),
    )
    ((path, data),) = manifests(inventory(owned)).items()
    assert path == "io.triton.manifest/manifest.json"
    content = json.loads(data)
    assert content["triton"] == [
        {"hash": TRITON_HASH, "backend": "cuda", "arch": "90", "warp_size": 32},
        {"hash": TRITON_HASH, "backend": "cuda", "arch": "90", "warp_size": 32},
        {"hash": "not-base32!", "backend": "hip", "arch": "gfx90a", "warp_size": 64},
    ]
    assert content["gkm"]["version"] == 1
    (record,) = content["gkm"]["formats"]
    assert record["entries"][0]["toolchain"] == {"triton": "3.9.0"}
    assert record["entries"][1]["targets"] == [{"backend": "cuda", "arch": "sm_90a", "warpSize": 32}]
    assert record["entries"][3]["helper"] is True
    assert record["relocatable"][0]["root"] == "/workspace/cache"


def test_equal_inventories_give_equal_bytes_and_another_entry_other_bytes() -> None:
    one, again, other = (
        inventory(FormatInventory("triton", ".", (entry(name, SM_90),))) for name in ("A", "A", "B")
    )
    assert manifests(one) == manifests(again)
    assert manifests(one) != manifests(other)


def test_caches_side_by_side_have_a_manifest_each_and_one_format_at_two_roots_a_common_one() -> None:
    found = manifests(
        inventory(
            FormatInventory("inductor", "i", (entry("i/x", SM_90, format_="inductor"),)),
            FormatInventory("triton", "t1", (entry("t1/A", SM_90),)),
            FormatInventory("triton", "t2", (entry("t2/B", SM_75),)),
        )
    )
    assert list(found) == ["io.inductor.manifest/manifest.json", "io.triton.manifest/manifest.json"]
    inductor, triton = (json.loads(data) for data in found.values())
    assert set(inductor) == {"gkm"}
    assert [item["arch"] for item in triton["triton"]] == ["90", "75"]
    assert [owned["root"] for owned in triton["gkm"]["formats"]] == ["t1", "t2"]


def test_a_vllm_cache_is_listed_by_hash_directory_in_each_layout() -> None:
    top = "torch_compile_cache"
    binary = f"{top}/aaaaaaaaaa/rank_0_0/backbone"
    unpacked = f"{top}/aaaaaaaaaa/rank_1_0/eagle_head"
    legacy = f"{top}/bbbbbbbbbb/rank_0_0/triton_cache/{TRITON_NAME}"
    aot = f"{top}/torch_aot_compile/{'c' * 64}"
    keys = (("code_hash", "c0de"), ("compiler_hash", "4fc2"), ("torch_key", "not MCV's"))
    artifact = entry(
        f"{binary}/artifact_compile_range_1_2048_subgraph_0",
        SM_75,
        format_="vllm",
        toolchain=Toolchain(keys=keys),
    )
    files = (
        f"{binary}/artifact_compile_range_1_2048_subgraph_1",
        f"{binary}/artifact_compile_range_1_2048_subgraph_0",
        f"{binary}/cache_key_factors.json",
        f"{unpacked}/artifact_shape_None_subgraph_0/ab/cx.py",
        f"{unpacked}/cache_key_factors.json",
        f"{top}/aaaaaaaaaa/rank_0_0/no_factors/artifact_compile_range_1_2_subgraph_0",
        f"{legacy}/code",
        f"{top}/dddddddddd/rank_0_0/computation_graph.py",
        f"{aot}/rank_0_0/model",
        f"{top}/torch_aot_compile/{'e' * 64}/rank_0_0/no_model",
        "modelinfos/x.json",
    )
    owned = FormatInventory("vllm", ".", (artifact, entry(legacy, GFX90A)))
    ((_, data),) = manifests(inventory(owned, files=files)).items()
    one, two, three = json.loads(data)["vllm"]
    assert one == {
        "vllmHash": "aaaaaaaaaa",
        "cacheFormat": "binary",
        "binary": [
            {
                "rank": "rank_0_0",
                "prefix": "backbone",
                "artifact_count": 2,
                "artifact_names": [
                    "artifact_compile_range_1_2048_subgraph_0",
                    "artifact_compile_range_1_2048_subgraph_1",
                ],
                "cache_save_format": "binary",
                "code_hash": "c0de",
                "compiler_hash": "4fc2",
                "target_device": "cuda",
            },
            {
                "rank": "rank_1_0",
                "prefix": "eagle_head",
                "artifact_count": 1,
                "artifact_names": ["artifact_shape_None_subgraph_0"],
                "cache_save_format": "unpacked",
            },
        ],
    }
    assert two == {
        "vllmHash": "bbbbbbbbbb",
        "cacheFormat": "triton",
        "triton": [{"hash": TRITON_HASH, "backend": "hip", "arch": "gfx90a", "warp_size": 64}],
    }
    assert three["vllmHash"] == "c" * 64
    assert three["binary"] == [
        {
            "rank": "rank_0_0",
            "prefix": "",
            "artifact_count": 1,
            "artifact_names": ["model"],
            "cache_save_format": "mega-aot",
        }
    ]
