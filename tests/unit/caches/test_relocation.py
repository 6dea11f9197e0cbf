"""A relocated tree names its own files where it will stand, and nothing else changes."""

import ast
import json
import shutil
from pathlib import Path, PurePosixPath

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gkm.caches.model import Inventory
from gkm.caches.relocation import InvalidMountRootError, relocate
from gkm.caches.scan import scan
from gkm.caches.tree import TreeReadError, UnsafeTreeError
from support.made_caches import inductor_cache, key, triton_entry, vllm_cache, write

GROUP = f"{key('k')}/__grp__add.json"

names = st.text("abcXYZ019.-_ é", min_size=1, max_size=12).filter(lambda name: name.strip(".") == name)
mount_roots = st.lists(names, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))


def children(content: bytes) -> dict[str, str]:
    return json.loads(content)["child_paths"]


@pytest.mark.parametrize("mount_root", ["/", "/cache", "/a b/c", "/var/lib/kubelet/pods/é"])
def test_a_group_names_the_files_beside_it(tmp_path: Path, mount_root: str) -> None:
    triton_entry(tmp_path / key("k"), stood_at="/old/" + key("k"))

    moved = dict(relocate(tmp_path, scan(tmp_path), mount_root))

    assert list(moved) == [GROUP]
    root = mount_root.rstrip("/")
    assert children(moved[GROUP]) == {
        f"add.{end}": f"{root}/{key('k')}/add.{end}" for end in ("cubin", "ttir", "json")
    }


def test_a_nested_cache_is_relocated_by_where_it_stands_now(tmp_path: Path) -> None:
    inductor_cache(tmp_path / "torch")
    triton_entry(tmp_path / "torch" / "triton" / "0" / key("k"), stood_at="/elsewhere/" + key("k"))

    ((file, content),) = relocate(tmp_path, scan(tmp_path), "/view")

    assert file == f"torch/triton/0/{GROUP}"
    assert children(content)["add.cubin"] == f"/view/torch/triton/0/{key('k')}/add.cubin"


def test_paths_of_files_that_are_not_in_the_tree_stay(tmp_path: Path) -> None:
    triton_entry(tmp_path / key("k"))
    group = {
        "child_paths": {
            "add.cubin": "/old/add.cubin",
            "gone": "/old/gone",
            "up": "/old/..",
            "root": "/",
            "passwd": "/etc/passwd",
        },
        "more": 1,
    }
    write(tmp_path / GROUP, json.dumps(group))

    ((_, content),) = relocate(tmp_path, scan(tmp_path), "/view")

    expected = group | {"child_paths": group["child_paths"] | {"add.cubin": f"/view/{key('k')}/add.cubin"}}
    assert json.loads(content) == expected


def test_the_index_of_vllm_names_its_artifacts_and_stays_a_literal(tmp_path: Path) -> None:
    vllm_cache(tmp_path, stood_at="/home/ec2-user/.cache/vllm")

    ((file, content),) = relocate(tmp_path, scan(tmp_path), "/cache")

    before = ast.literal_eval((tmp_path / file).read_text())
    after = ast.literal_eval(content.decode())
    assert after.keys() == before.keys()
    for handle, (name, path) in after.items():
        assert before[handle][0] == name
        assert path.startswith("/cache/torch_compile_cache/")
        assert (tmp_path / PurePosixPath(path).relative_to("/cache")).is_file()


def test_an_index_is_rewritten_only_where_it_names_what_is_there(tmp_path: Path) -> None:
    vllm_cache(tmp_path, stood_at="/old", subgraphs=2)
    gone = min(tmp_path.rglob("artifact_*"))
    gone.unlink()

    ((_, content),) = relocate(tmp_path, scan(tmp_path), "/new")

    paths = {path for _, path in ast.literal_eval(content.decode()).values()}
    assert {path.split("/")[1] for path in paths} == {"old", "new"}
    assert [path for path in paths if path.endswith(gone.name)] == [f"/old/{gone.relative_to(tmp_path)}"]


def test_an_index_that_names_an_unpacked_artifact_is_relocated(tmp_path: Path) -> None:
    rank = "torch_compile_cache/abc/rank_0_0/backbone"
    triton_entry(tmp_path / rank / "artifact_shape_None_subgraph_0" / "triton" / "0" / key("k"))
    index = {(None, 0, "x"): ("artifact", f"/old/{rank}/artifact_shape_None_subgraph_0")}
    write(tmp_path / rank / "vllm_compile_cache.py", repr(index))

    moved = dict(relocate(tmp_path, scan(tmp_path), "/new"))

    assert f"'/new/{rank}/artifact_shape_None_subgraph_0'" in moved[f"{rank}/vllm_compile_cache.py"].decode()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12, deadline=None)
@given(first=mount_roots, second=mount_roots)
def test_relocation_can_be_repeated_and_undone(tmp_path: Path, first: str, second: str) -> None:
    tree = tmp_path / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    vllm_cache(tree / "vllm", stood_at="/old/vllm")
    triton_entry(tree / "triton" / key("k"), stood_at="/old/triton/" + key("k"))
    inventory = scan(tree)

    def move(mount_root: str) -> dict[str, bytes]:
        moved = dict(relocate(tree, inventory, mount_root))
        for file, content in moved.items():
            (tree / file).write_bytes(content)
        return moved

    move(first)
    once = {r.file: (tree / r.file).read_bytes() for f in inventory.formats for r in f.relocatable}
    assert move(first) == {}
    roots = {r.root for f in scan(tree).formats for r in f.relocatable}
    assert roots == {first}
    move(second)
    move(first)
    assert {file: (tree / file).read_bytes() for file in once} == once


@pytest.mark.parametrize(
    "mount_root", ["", "cache", "./x", "/a/../b", "/a//b", "/a/", "//a", "/a\nb", "/a\x00b", "/a/."]
)
def test_a_path_that_is_not_plain_is_refused_before_anything_is_read(tmp_path: Path, mount_root: str) -> None:
    with pytest.raises(InvalidMountRootError, match="absolute path"):
        relocate(tmp_path / "absent", Inventory(formats=(), files=(), bytes=0), mount_root)


def test_a_path_in_the_inventory_that_leaves_the_tree_is_refused(tmp_path: Path) -> None:
    triton_entry(tmp_path / "tree" / key("k"))
    inventory = scan(tmp_path / "tree")
    (found,) = inventory.formats
    outside = msgspec.structs.replace(found.relocatable[0], file="../outside.json")
    forged = msgspec.structs.replace(
        inventory, formats=(msgspec.structs.replace(found, relocatable=(outside,)),)
    )

    with pytest.raises(UnsafeTreeError, match="outside"):
        list(relocate(tmp_path / "tree", forged, "/view"))


def test_a_file_that_is_gone_is_told_by_name(tmp_path: Path) -> None:
    triton_entry(tmp_path / key("k"))
    inventory = scan(tmp_path)
    (tmp_path / GROUP).unlink()

    with pytest.raises(TreeReadError, match="__grp__add"):
        list(relocate(tmp_path, inventory, "/view"))


def test_a_format_of_a_later_release_is_left_as_it_is(tmp_path: Path) -> None:
    triton_entry(tmp_path / key("k"))
    inventory = scan(tmp_path)
    data = msgspec.json.encode(inventory).replace(
        b'"format":"triton","root"', b'"format":"flashinfer","root"'
    )

    assert list(relocate(tmp_path, msgspec.json.decode(data, type=Inventory), "/view")) == []
