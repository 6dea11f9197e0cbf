"""The sample caches that need hardware to make, and images that upstream's own tool built."""

import tarfile
from pathlib import Path

import pytest

from support.command import gkm, gkm_json
from support.samples import extract

pytestmark = pytest.mark.timeout(600)

CACHES = {
    "vllm-cache": ("vllm", ["gfx90a"]),
    "llama-binary-cache": ("vllm", ["sm_75"]),
    "vector-add-cache": ("triton", ["sm_75"]),
    "inductor-cpu-cache": ("inductor", ["x86_64"]),
}


def unpacked(sample_dir: Path, name: str, into: Path) -> Path:
    """The sample `name`, unpacked; its top directory."""
    with tarfile.open(sample_dir / f"{name}.tar.xz") as archive:
        extract(archive, into)
    [top] = into.iterdir()
    return top


def contents(tree: Path) -> dict[str, bytes]:
    return {str(path.relative_to(tree)): path.read_bytes() for path in tree.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", CACHES)
def test_a_sample_is_recognised_packed_and_given_back(sample_dir: Path, tmp_path: Path, name: str) -> None:
    format_name, archs = CACHES[name]
    tree = unpacked(sample_dir, name, tmp_path / "in")
    found = gkm_json("inspect", tree)
    assert [one["format"] for one in found["formats"]] == [format_name]
    assert [target["arch"] for target in found["targets"]] == archs
    packed = gkm_json("pack", tree, f"oci:{tmp_path}/images:v1")
    assert packed["entries"] > 0
    gkm("unpack", f"oci:{tmp_path}/images:v1", tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tree)


@pytest.mark.parametrize("name", ["vllm-cache", "llama-binary-cache"])
def test_what_cannot_be_relocated_is_named(sample_dir: Path, tmp_path: Path, name: str) -> None:
    [vllm] = gkm_json("inspect", unpacked(sample_dir, name, tmp_path))["formats"]
    assert vllm["relocatable"]
    assert all(path["path"].startswith("/") and path["reason"] for path in vllm["unrelocatable"])
    assert vllm["unrelocatable"]


@pytest.mark.parametrize("name", ["vllm-cache", "llama-binary-cache", "vector-add-cache"])
def test_relocated_paths_lead_to_files(sample_dir: Path, tmp_path: Path, name: str) -> None:
    tree = unpacked(sample_dir, name, tmp_path / "in")
    gkm("pack", tree, f"oci:{tmp_path}/images:v1")
    out = tmp_path / "moved" / "here"
    gkm("unpack", f"oci:{tmp_path}/images:v1", out, "--relocate", out)
    for file in gkm_json("inspect", out)["formats"][0]["relocatable"]:
        text = (out / file["file"]).read_text()
        named = [word for word in text.replace("'", '"').split('"') if word.startswith("/")]
        assert named
        assert all(Path(path).exists() for path in named), (file["file"], named)


@pytest.mark.parametrize(("name", "arch"), [("vector-add-cache", "sm_75"), ("vllm-cache", "gfx90a")])
def test_upstreams_images_inspect_check_unpack_and_mount(
    sample_dir: Path, tmp_path: Path, name: str, arch: str
) -> None:
    layout = tmp_path / "layout"
    with tarfile.open(sample_dir / "mcv-images" / f"{name}.oci.tar") as archive:
        extract(archive, layout)
    image = f"oci:{layout}"
    found = gkm_json("inspect", image)
    assert [target["arch"] for target in found["targets"]] == [arch]
    product = {"sm_75": "T4", "gfx90a": "MI210"}[arch]
    assert gkm_json("check", image, "--gpu", product)["verdict"] == "Compatible"
    assert gkm_json("check", image, "--gpu", "H100", status=1)["verdict"] == "Incompatible"
    gkm("unpack", image, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(unpacked(sample_dir, name, tmp_path / "sample"))
    # Mounted, every path that a group file names can be opened.
    script = (
        "import json, os, pathlib, sys\n"
        "root = pathlib.Path(os.environ.get('TRITON_CACHE_DIR') or os.environ['VLLM_CACHE_ROOT'])\n"
        "groups = [json.loads(path.read_text()) for path in root.rglob('__grp__*.json')]\n"
        "paths = [path for group in groups for path in group['child_paths'].values()]\n"
        "assert paths\n"
        "for path in paths: open(path, 'rb').close()\n"
    )
    gkm("run", "--cache", image, "--", "python3", "-c", script)
