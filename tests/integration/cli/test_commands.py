"""Every command on a real Triton cache: what it answers, in JSON, and with which exit status."""

import json
import os
import shutil
from pathlib import Path

import pytest

from support.command import gkm, gkm_json, workload

pytestmark = pytest.mark.triton


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Triton cache of two kernels for sm_90 and gfx942, made by the real compiler."""
    import subprocess

    root = tmp_path_factory.mktemp("cache")
    directory = root / "built-here"
    subprocess.run(
        workload(root / "report.json", ("sm_90", "gfx942")),
        env={**os.environ, "TRITON_CACHE_DIR": str(directory)},
        check=True,
    )
    return directory


@pytest.fixture
def image(cache: Path, tmp_path: Path) -> str:
    """`cache`, packed into a layout directory."""
    reference = f"oci:{tmp_path}/images:v1"
    gkm("pack", cache, reference)
    return reference


def test_pack_tells_digest_size_formats_and_entries(cache: Path, tmp_path: Path) -> None:
    packed = gkm_json("pack", cache, f"oci:{tmp_path}/layout:v1")
    assert packed["digest"].startswith("sha256:")
    assert packed["formats"] == ["triton"]
    assert packed["entries"] == 4
    assert 0 < packed["size"] < packed["cacheBytes"]


def test_inspect_of_image_and_directory_agree(cache: Path, image: str) -> None:
    of_image, of_directory = gkm_json("inspect", image), gkm_json("inspect", cache)
    assert of_image["formats"] == of_directory["formats"]
    kernels = [entry for entry in of_image["formats"][0]["entries"] if not entry["helper"]]
    assert sorted(t["arch"] for entry in kernels for t in entry["targets"]) == ["gfx942"] * 2 + ["sm_90"] * 2
    assert all(entry["toolchain"]["triton"].startswith("3.") for entry in kernels)
    assert of_image["labels"]["cache.triton.image/entry-count"] == "4"
    assert of_directory["digest"] is None


def test_check_judges_named_simulated_and_absent_gpus(image: str) -> None:
    fits = gkm_json("check", image, "--gpu", "H100", "--gpu", "A100")
    assert [gpu["verdict"] for gpu in fits["gpus"]] == ["Compatible", "Incompatible"]
    assert fits["verdict"] == "Compatible"
    refused = gkm_json("check", image, "--gpu", "MI210", status=1)
    assert refused["gpus"][0]["reason"] == "ArchMismatch"
    assert "gfx90a" in refused["gpus"][0]["factor"]
    simulated = gkm_json("check", image, env={"GKM_SIMULATED_GPUS": "2xMI300X"})
    assert [gpu["verdict"] for gpu in simulated["gpus"]] == ["Compatible"] * 2


def test_check_without_any_gpu_is_unknown_and_not_a_no(image: str) -> None:
    if gkm_json("gpus")["gpus"]:
        pytest.skip("this machine has a GPU")
    answer = gkm_json("check", image)
    assert (answer["verdict"], answer["reason"]) == ("Unknown", "NoGPU")


def test_push_keeps_the_digest_and_pull_stages_once(image: str, tmp_path: Path) -> None:
    copied = gkm_json("push", image, f"oci:{tmp_path}/other:v2")
    pulled = gkm_json("pull", f"oci:{tmp_path}/other:v2", "--store", tmp_path / "store")
    assert pulled["digest"] == copied["digest"]
    assert not pulled["alreadyStaged"]
    assert gkm_json("pull", image, "--store", tmp_path / "store")["alreadyStaged"]
    listing = gkm_json("store", "ls", "--store", tmp_path / "store")
    assert [tree["digest"] for tree in listing["trees"]] == [copied["digest"]]


def test_unpack_gives_back_what_was_packed(cache: Path, image: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    gkm("unpack", image, out)
    assert gkm_json("diff", cache, out) == {"added": [], "removed": [], "changed": []}
    for path in cache.rglob("*"):
        if path.is_file():
            twin = out / path.relative_to(cache)
            assert twin.read_bytes() == path.read_bytes()
            assert os.access(twin, os.X_OK) == os.access(path, os.X_OK)


def test_unpack_refuses_a_directory_with_something_in_it(image: str, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    done = gkm("unpack", image, tmp_path / "full", status=2)
    assert "not an empty directory" in done.stderr
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["file"]


def test_unpack_relocated_is_hit_where_it_stands(image: str, tmp_path: Path) -> None:
    import subprocess

    out = tmp_path / "elsewhere"
    gkm("unpack", image, out, "--relocate", out)
    report = tmp_path / "report.json"
    subprocess.run(
        workload(report, ("sm_90", "gfx942")), env={**os.environ, "TRITON_CACHE_DIR": str(out)}, check=True
    )
    assert json.loads(report.read_text())["compiled"] == 0


def test_diff_names_file_and_entry(cache: Path, image: str, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(cache, changed)
    victim = next(changed.rglob("*.cubin"))
    data = bytearray(victim.read_bytes())
    data[-1] ^= 1
    victim.write_bytes(data)
    found = gkm_json("diff", image, changed, status=1)
    assert found["added"] == found["removed"] == []
    [change] = found["changed"]
    assert change["entry"] == victim.parent.name
    assert change["files"] == [str(victim.relative_to(changed))]


def test_store_verify_finds_a_flipped_byte(image: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    gkm("pull", image, "--store", store)
    assert gkm_json("store", "verify", "--store", store)["trees"][0]["intact"]
    victim = next(store.rglob("*.cubin"))
    data = bytearray(victim.read_bytes())
    data[10] ^= 1
    victim.write_bytes(data)
    [tree] = gkm_json("store", "verify", "--store", store, status=1)["trees"]
    assert not tree["intact"]
    assert [(Path(damage["path"]).name, damage["kind"]) for damage in tree["damaged"]] == [
        (victim.name, "changed")
    ]


def test_store_gc_removes_what_nothing_mounts(image: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    digest = gkm_json("pull", image, "--store", store)["digest"]
    removed = gkm_json("store", "gc", "--store", store)
    assert [tree["digest"] for tree in removed["removed"]] == [digest]
    assert gkm_json("store", "ls", "--store", store)["trees"] == []
    assert not list(store.rglob("*.cubin"))


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["inspect", "/no/such/directory"], 2, "no such directory"),
        (["pack", "/etc/apt", "oci:/tmp/never:v1"], 2, "no kernel cache found"),
        (["inspect", "oci:/no/such/layout:v1"], None, "/no/such/layout"),
        (["pull", "not a reference"], 2, "not a reference"),
        (["check", "127.0.0.1:1/nothing/here:v1"], 3, "127.0.0.1:1"),
        (["check", "oci:x", "--gpu", "Voodoo2"], 2, "Voodoo2"),
        (["frobnicate"], 2, "frobnicate"),
    ],
)
def test_failures_have_a_status_and_say_what_to_do(words: list[str], status: int | None, says: str) -> None:
    done = gkm(*words, status=status)
    assert done.returncode in (2, 3)
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_failure_in_json_is_a_document_too() -> None:
    document = json.loads(gkm("inspect", "127.0.0.1:1/nothing/here:v1", "-o", "json", status=3).stdout)
    assert document["error"]["reason"]
    assert "127.0.0.1:1" in document["error"]["message"]


def test_simulated_gpus_are_listed() -> None:
    found = gkm_json("gpus", env={"GKM_SIMULATED_GPUS": "2xH100,1xMI300X"})["gpus"]
    assert [gpu["arch"] for gpu in found] == ["sm_90", "sm_90", "gfx942"]
    assert [gpu["index"] for gpu in found] == [0, 1, 2]
    assert len({gpu["uuid"] for gpu in found}) == 3
