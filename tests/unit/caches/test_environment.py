"""The frameworks are pointed to where their caches stand."""

from pathlib import Path

from gkm.caches.environment import variables
from gkm.caches.scan import scan
from support.made_caches import inductor_cache, key, triton_entry, vllm_cache


def test_a_cold_start_gives_each_framework_a_directory_of_its_own() -> None:
    assert variables(None, "/view") == {
        "TRITON_CACHE_DIR": "/view/triton",
        "TORCHINDUCTOR_CACHE_DIR": "/view/inductor",
        "VLLM_CACHE_ROOT": "/view/vllm",
    }


def test_what_a_cold_start_compiled_is_found_again_by_the_next(tmp_path: Path) -> None:
    for variable, path in variables(None, str(tmp_path)).items():
        make = {"TRITON_CACHE_DIR": lambda p: triton_entry(p / key("k")), "VLLM_CACHE_ROOT": vllm_cache}
        make.get(variable, inductor_cache)(Path(path))

    assert variables(scan(tmp_path), "/elsewhere") == variables(None, "/elsewhere")


def test_only_the_formats_in_the_cache_are_pointed_to_it(tmp_path: Path) -> None:
    triton_entry(tmp_path / key("k"))

    assert variables(scan(tmp_path), "/view") == {"TRITON_CACHE_DIR": "/view"}
    assert variables(scan(tmp_path), "/") == {"TRITON_CACHE_DIR": "/"}


def test_of_several_roots_the_fullest_is_taken(tmp_path: Path) -> None:
    triton_entry(tmp_path / "a" / key("k"))
    triton_entry(tmp_path / "b" / key("k"))
    triton_entry(tmp_path / "b" / key("l"))

    assert variables(scan(tmp_path), "/view") == {"TRITON_CACHE_DIR": "/view/b"}
