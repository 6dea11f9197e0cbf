"""Where a cache's files stand in an image, and that the way back loses nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gkm.base.errors import UsageError
from gkm.caches.image_paths import image_path, manifests, tree_path
from gkm.caches.model import FormatInventory, Inventory
from gkm.caches.roots import CollidingRootsError, NoCacheError

NAME = st.text(
    st.characters(blacklist_characters="/\x00", blacklist_categories=("Cs",)), min_size=1, max_size=8
).filter(lambda name: name not in (".", ".."))
PATH = st.lists(NAME, min_size=1, max_size=5).map("/".join)


def inventory(files: list[str], *formats: tuple[str, str]) -> Inventory:
    return Inventory(
        formats=tuple(FormatInventory(format=f, root=root, entries=()) for f, root in formats),
        files=tuple(files),
        bytes=0,
    )


def test_one_cache_keeps_its_tree_below_its_formats_top_directory() -> None:
    found = image_path(inventory(["HASH/x.cubin", "notes.txt"], ("triton", ".")))
    assert found == {
        "HASH/x.cubin": "io.triton.cache/HASH/x.cubin",
        "notes.txt": "io.triton.cache/notes.txt",
    }


def test_caches_side_by_side_have_a_top_directory_each_and_strays_go_to_the_first() -> None:
    files = ["inductor/ab/cx.py", "readme", "triton/HASH/x.cubin", "triton2/y"]
    found = image_path(inventory(files, ("inductor", "inductor"), ("triton", "triton")))
    assert found == {
        "inductor/ab/cx.py": "io.inductor.cache/inductor/ab/cx.py",
        "readme": "io.inductor.cache/readme",
        "triton/HASH/x.cubin": "io.triton.cache/triton/HASH/x.cubin",
        "triton2/y": "io.inductor.cache/triton2/y",
    }


@given(st.lists(PATH, unique=True), st.sampled_from([[("triton", ".")], [("vllm", "a"), ("triton", "b/c")]]))
def test_every_file_finds_its_way_back(files: list[str], formats: list[tuple[str, str]]) -> None:
    packed = image_path(inventory(files, *formats))
    assert {tree_path(path): file for file, path in packed.items()} == {file: file for file in files}
    assert len(set(packed.values())) == len(files)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("io.triton.cache/HASH/x", "HASH/x"),
        ("./io.triton.cache/HASH/x", "HASH/x"),
        ("././io.vllm.cache/x", "x"),
        ("io.triton.cache/HASH/", "HASH/"),
        ("io.deep_gemm.cache/kernel.x/kernel.cubin", "kernel.x/kernel.cubin"),
        ("io.triton.cache/../../etc/passwd", "../../etc/passwd"),
        ("io.triton.cache//etc/passwd", "/etc/passwd"),
        ("io.triton.cache/a\nb", "a\nb"),
        ("io.triton.cache", None),
        ("io.triton.cache/", None),
        ("io.triton.manifest/manifest.json", None),
        ("io.vllm.cacheX/a", None),
        ("usr/bin/env", None),
        ("x/io.triton.cache/a", None),
        ("", None),
    ],
)
def test_the_way_back_normalises_nothing_but_a_leading_dot(path: str, expected: str | None) -> None:
    assert tree_path(path) == expected


@pytest.mark.parametrize(
    "formats",
    [
        [("triton", "."), ("vllm", ".")],
        [("inductor", "a"), ("triton", "a/b")],
        [("triton", "a/b"), ("inductor", "a")],
        [("triton", "a"), ("triton", ".")],
    ],
)
def test_caches_in_one_another_are_refused(formats: list[tuple[str, str]]) -> None:
    for call in (image_path, manifests):
        with pytest.raises(CollidingRootsError, match="a directory of its own") as caught:
            call(inventory(["a/b/c"], *formats))
        assert isinstance(caught.value, UsageError)
        assert caught.value.reason == "CollidingRoots"


def test_roots_with_a_common_beginning_do_not_collide() -> None:
    assert image_path(inventory(["ab/x"], ("triton", "a"), ("vllm", "ab"))) == {"ab/x": "io.vllm.cache/ab/x"}


def test_a_directory_without_a_cache_is_refused() -> None:
    with pytest.raises(NoCacheError, match="no kernel cache"):
        image_path(inventory(["a"]))
