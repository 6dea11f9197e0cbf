"""The reason GKM exists: a Triton cache built at one path is hit at others, by whoever runs there.

Recompilations are counted by the compiler's own listener. The cache's original directory is gone before it is
delivered, as on any other machine: while it exists, Triton would silently read from there.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.command import GKM, compiled, gkm, workload
from support.users import ordinary_user

pytestmark = [pytest.mark.triton, pytest.mark.root]

TARGETS = ("sm_80", "sm_90", "sm_100", "gfx942", "gfx1100")
KERNELS = 2
ENTRIES = len(TARGETS) * KERNELS


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A layout directory with a cache of real kernels for five targets, built at a path that is gone."""
    root = tmp_path_factory.mktemp("delivery")
    built = root / "built-here"
    subprocess.run(
        workload(root / "cold.json", TARGETS, kernels=KERNELS),
        env={**os.environ, "TRITON_CACHE_DIR": str(built)},
        check=True,
    )
    assert compiled(root / "cold.json") == ENTRIES
    gkm("pack", built, f"oci:{root}/layout:v1")
    shutil.rmtree(built)
    return root / "layout"


def test_as_root_at_a_path_of_its_own(layout: Path, tmp_path: Path) -> None:
    program = workload(tmp_path / "warm.json", TARGETS, kernels=KERNELS)
    report = tmp_path / "run.json"
    gkm(
        "run",
        "--cache",
        f"oci:{layout}:v1",
        "--mount",
        tmp_path / "root" / "sees",
        "--report",
        report,
        "--",
        *program,
    )
    assert compiled(tmp_path / "warm.json") == 0
    found = json.loads(report.read_text())
    assert found["path"] == str(tmp_path / "root" / "sees")
    assert (found["mount"], found["hits"], found["misses"]) == ("overlay", ENTRIES, 0)
    assert found["observation"] == "complete"


def test_as_another_uid_in_the_view_that_root_mounted(layout: Path, tmp_path: Path) -> None:
    with ordinary_user() as user:
        program = user.command(*workload(user.home / "warm.json", TARGETS, kernels=KERNELS))
        report = tmp_path / "run.json"
        gkm(
            "run",
            "--cache",
            f"oci:{layout}:v1",
            "--mount",
            "/var/tmp/gkm-test-view",
            "--report",
            report,
            "--",
            *program,
        )
        assert compiled(user.home / "warm.json") == 0
    assert json.loads(report.read_text())["hits"] == ENTRIES


def test_as_another_uid_through_a_copy_of_the_view(layout: Path, tmp_path: Path) -> None:
    """What a root-mounted view shows, copied out and used at the view's path by somebody else."""
    with ordinary_user() as user:
        view = user.home / "seen" / "here"
        copy = user.home / "copy"
        script = f'cp -r "$TRITON_CACHE_DIR" {copy} && chown -R {user.uid}:{user.gid} {copy}'
        gkm("run", "--cache", f"oci:{layout}:v1", "--mount", view, "--", "sh", "-c", script)
        view.parent.mkdir(exist_ok=True)
        copy.rename(view)
        os.chown(view.parent, user.uid, user.gid)
        done = user.run(
            user.command(*workload(user.home / "warm.json", TARGETS, kernels=KERNELS)),
            TRITON_CACHE_DIR=str(view),
        )
        assert done.returncode == 0, done.stderr
        assert compiled(user.home / "warm.json") == 0


def test_as_an_ordinary_user_with_a_store_of_their_own(layout: Path) -> None:
    with ordinary_user() as user:
        images = user.home / "images"
        shutil.copytree(layout, images)
        for path in (images, *images.rglob("*")):
            os.chown(path, user.uid, user.gid)
        report = user.home / "run.json"
        program = workload(user.home / "warm.json", TARGETS, kernels=KERNELS)
        done = user.run(
            user.command(
                sys.executable,
                GKM,
                "run",
                "--cache",
                f"oci:{images}:v1",
                "--report",
                str(report),
                "--",
                *program,
            )
        )
        assert done.returncode == 0, done.stderr
        assert compiled(user.home / "warm.json") == 0
        found = json.loads(report.read_text())
        assert (found["mount"], found["hits"], found["misses"]) == ("user-overlay", ENTRIES, 0)
        assert found["observation"] == "complete"


def test_merely_copied_the_same_cache_is_compiled_again(layout: Path, tmp_path: Path) -> None:
    """The control: without relocation nothing is hit, so the tests above show relocation and not luck."""
    plain = tmp_path / "plain"
    gkm("unpack", f"oci:{layout}:v1", plain)
    subprocess.run(
        workload(tmp_path / "copied.json", TARGETS[:1], kernels=KERNELS),
        env={**os.environ, "TRITON_CACHE_DIR": str(plain)},
        check=True,
    )
    assert compiled(tmp_path / "copied.json") == KERNELS
