"""Labels of a cache image: MCV's, ours, and what is read from strangers' labels."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gkm.caches.labels import formats_from_labels, image_labels, targets_from_labels
from gkm.caches.model import FormatInventory, Target, Toolchain, distinct_targets
from gkm.caches.roots import NoCacheError
from support.inventories import GFX90A, SM_75, SM_90, entry, inventory

TOP = "torch_compile_cache"


def test_a_triton_cache_gets_mcvs_labels_and_ours() -> None:
    kernel = entry("A", SM_75, size=72, toolchain=Toolchain(triton="3.9.0", python="cpython-312"))
    owned = FormatInventory("triton", ".", (kernel, entry("B", helper=True)))
    assert image_labels(inventory(owned, size=72152)) == {
        "cache.triton.image/cache-size-bytes": "72152",
        "cache.triton.image/entry-count": "1",
        "cache.triton.image/summary": '{"targets":[{"backend":"cuda","arch":"75","warp_size":32}]}',
        "gkm.io/entries": "1",
        "gkm.io/formats": "triton",
        "gkm.io/targets": '[{"backend":"cuda","arch":"sm_75","warpSize":32}]',
        "gkm.io/toolchain": '{"triton":{"python":["cpython-312"],"triton":["3.9.0"]}}',
    }


def test_a_legacy_vllm_cache_gets_mcvs_labels() -> None:
    owned = FormatInventory(
        "vllm", ".", (entry(f"{TOP}/d4ec7c2a7d/rank_0_0/triton_cache/A", GFX90A, size=5),)
    )
    labels = image_labels(inventory(owned, size=2255554))
    assert {key: value for key, value in labels.items() if not key.startswith("gkm.io/")} == {
        "cache.vllm.image/cache-size-bytes": "2255554",
        "cache.vllm.image/entry-count": "1",
        "cache.vllm.image/format": "triton",
        "cache.vllm.image/summary": '{"targets":[{"backend":"hip","arch":"gfx90a","warp_size":64}]}',
        "io.kserve.km/cache-hash": "d4ec7c2a7d",
        "io.kserve.km/cache-mount-subpath": "torch_compile_cache",
        "io.kserve.km/cache-root-env": "VLLM_CACHE_ROOT=/home/kserve/.cache/vllm",
        "io.kserve.km/cache-type": "torch-compile",
        "io.kserve.km/framework": "vllm",
    }


def test_vllm_artifacts_are_summed_up_with_sm_prefix_and_cuda_version() -> None:
    binary = f"{TOP}/aaaaaaaaaa/rank_0_0/backbone"
    name = f"{binary}/artifact_compile_range_1_2_subgraph_0"
    files = (name, f"{binary}/cache_key_factors.json", f"{TOP}/bbbbbbbbbb/rank_0_0/stray")
    artifact = entry(name, SM_75, format_="vllm", toolchain=Toolchain(cuda="12.9"))
    owned = FormatInventory("vllm", ".", (artifact, entry(f"{name}/triton/0/A", SM_75)))
    labels = image_labels(inventory(owned, files=files))
    assert json.loads(labels["cache.vllm.image/summary"]) == {
        "targets": [{"backend": "cuda", "arch": "sm_75", "warp_size": 32, "cuda_version": "12.9"}]
    }
    assert labels["cache.vllm.image/entry-count"] == "2"
    assert labels["cache.vllm.image/format"] == "binary"
    assert labels["io.kserve.km/cache-hash"] == "aaaaaaaaaa"


def test_models_compiled_ahead_of_time_are_named_by_their_place() -> None:
    files = (f"cache/{TOP}/torch_aot_compile/{'c' * 64}/rank_0_0/model",)
    owned = FormatInventory("vllm", "cache", (entry(files[0], SM_90, format_="vllm"),))
    labels = image_labels(inventory(owned, files=files))
    assert labels["cache.vllm.image/format"] == "binary"
    assert labels["io.kserve.km/cache-mount-subpath"] == f"cache/{TOP}/torch_aot_compile"


def test_a_vllm_cache_that_mcv_could_not_describe_says_unpacked() -> None:
    files = (f"{TOP}/aaaaaaaaaa/rank_0_0/stray",)
    labels = image_labels(inventory(FormatInventory("vllm", ".", ()), files=files))
    assert labels["cache.vllm.image/format"] == "unpacked"
    assert labels["cache.vllm.image/summary"] == "null"
    assert not [key for key in labels if key.startswith("io.kserve.km/")]


def test_the_sizes_of_caches_side_by_side_add_up_to_all_bytes() -> None:
    labels = image_labels(
        inventory(
            FormatInventory("inductor", "i", (entry("i/x", SM_90, format_="inductor", size=7),)),
            FormatInventory("triton", "t1", (entry("t1/A", SM_90, size=20),)),
            FormatInventory("triton", "t2", (entry("t2/B", GFX90A, size=3),)),
            size=100,
        )
    )
    assert labels["cache.inductor.image/cache-size-bytes"] == "77"
    assert labels["cache.triton.image/cache-size-bytes"] == "23"
    assert labels["cache.triton.image/entry-count"] == "2"
    assert labels["gkm.io/formats"] == "inductor,triton"
    assert formats_from_labels(labels) == ("inductor", "triton")


def test_labels_of_a_directory_without_a_cache_are_refused() -> None:
    with pytest.raises(NoCacheError):
        image_labels(inventory())


def test_targets_come_in_one_order_whatever_tells_them_apart() -> None:
    named, unnamed = (Target("cuda", "sm_90", 32, product) for product in ("", None))
    assert distinct_targets([named, unnamed]) == distinct_targets([unnamed, named]) == (unnamed, named)


@given(
    st.sets(
        st.builds(
            Target,
            st.sampled_from(["cuda", "hip", "cpu"]),
            st.sampled_from(["sm_90", "sm_90a", "gfx942", "x86_64"]),
            st.sampled_from([0, 32, 64]),
            st.none() | st.text(max_size=9),
        )
    )
)
def test_targets_survive_the_labels(targets: set[Target]) -> None:
    whole = inventory(FormatInventory("inductor", ".", (entry("x", *targets, format_="inductor"),)))
    assert targets_from_labels(image_labels(whole)) == whole.targets


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        ('{"targets":[{"backend":"cuda","arch":"75","warp_size":32}]}', (SM_75,)),
        ('{"targets":[{"backend":"cuda","arch":75,"warp_size":32}]}', (SM_75,)),
        (
            (
                '{"targets":[{"backend":"cuda","arch":"sm_75","warp_size":32,"ptx_version":590,'
                '"cuda_version":"12.9"}]}'
            ),
            (SM_75,),
        ),
        ('{"targets":[{"backend":"rocm","arch":"gfx90a","warp_size":64}]}', (GFX90A,)),
        ('{"targets":[{"backend":"cuda","arch":"90a","warp_size":32}]}', (Target("cuda", "sm_90a", 32),)),
        (
            (
                '{"targets":[{"backend":"hip"},7,{"backend":"hip","arch":"gfx90a","warp_size":64},'
                '{"backend":"","arch":"","warp_size":0}]}'
            ),
            (GFX90A,),
        ),
        ('{"targets":null}', ()),
        ("null", ()),
        ("", ()),
        ("{", ()),
        ("[]", ()),
        ('{"targets":"all"}', ()),
        ('{"targets":[{"backend":"cuda","arch":' + "9" * 5000 + ',"warp_size":32}]}', ()),
        ("[" * 100_000, ()),
        ('{"x":' + "[" * 100_000, ()),
        ("\ud800", ()),
    ],
    ids=repr,
)
def test_mcvs_summary_is_read_whatever_it_holds(summary: str, expected: tuple[Target, ...]) -> None:
    assert targets_from_labels({"cache.triton.image/summary": summary}) == expected
    assert targets_from_labels({"gkm.io/targets": "null", "cache.vllm.image/summary": summary}) == expected


@given(st.text())
def test_no_text_at_all_breaks_the_reader(text: str) -> None:
    labels = {"gkm.io/targets": text, "cache.triton.image/summary": text, "gkm.io/formats": text}
    targets_from_labels(labels)
    formats_from_labels(labels)


def test_our_own_targets_win_over_mcvs() -> None:
    labels = {
        "gkm.io/targets": '[{"backend":"cuda","arch":"sm_90","warpSize":32,"product":"NVIDIA H200"}]',
        "cache.inductor.image/summary": '{"targets":[{"backend":"cuda","arch":"90","warp_size":32}]}',
    }
    assert targets_from_labels(labels) == (Target("cuda", "sm_90", 32, "NVIDIA H200"),)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"cache.triton.image/summary": "null"}, ("triton",)),
        ({"cache.vllm.image/entry-count": "1", "cache.vllm.image/format": "binary"}, ("vllm",)),
        ({"gkm.io/formats": "vllm,triton"}, ("triton", "vllm")),
        ({"gkm.io/formats": "../..,,X"}, ()),
        ({"org.opencontainers.image.title": "old"}, ()),
        ({}, ()),
    ],
)
def test_formats_are_read_from_either_kind_of_label(
    labels: dict[str, str], expected: tuple[str, ...]
) -> None:
    assert formats_from_labels(labels) == expected
