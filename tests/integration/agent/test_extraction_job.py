"""gkm-extract as an extraction Job's container: the environment in, a directory and an exit status out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.cached_images import publish
from support.made_caches import key
from support.registry import RunningRegistry

A100, H100 = "A100", "H100"


def job(directory: Path, image: str, **environ: str) -> subprocess.CompletedProcess[str]:
    known = {"PATH": os.environ["PATH"], "GKM_CACHE_DIR": str(directory), "GKM_IMAGE_URL": image, **environ}
    return subprocess.run(
        [sys.executable, "-P", "-m", "gkm.processes.extract"],
        env=known,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def visible(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir() if not path.name.startswith(".")}


async def test_a_job_fills_its_directory_once_and_again_for_another_image(
    registry: RunningRegistry, tmp_path: Path
) -> None:
    await publish(registry.host, tmp_path, "A", tag="one", repository="jobs/add")
    await publish(registry.host, tmp_path, "B", tag="two", repository="jobs/add")
    one, two = (f"{registry.host}/jobs/add:{tag}" for tag in ("one", "two"))
    volume = tmp_path / "volume"
    first = job(volume, one, NO_GPU="true")
    assert first.returncode == 0, first.stderr
    assert visible(volume) == {key("A")}
    assert (volume / ".initialized").read_text() == one
    assert (volume / key("A") / "add.cubin").read_text() == "code of add for 80"
    marked = (volume / key("A")).stat().st_mtime_ns
    again = job(volume, one, NO_GPU="true")
    assert (again.returncode, (volume / key("A")).stat().st_mtime_ns) == (0, marked)
    assert "already" in again.stderr
    other = job(volume, two, NO_GPU="true")
    assert other.returncode == 0, other.stderr
    assert visible(volume) == {key("B")}
    assert (volume / ".initialized").read_text() == two


async def test_a_job_that_fails_leaves_the_directory_as_it_was(
    registry: RunningRegistry, tmp_path: Path
) -> None:
    await publish(registry.host, tmp_path, "C", tag="one", repository="jobs/kept")
    volume = tmp_path / "volume"
    image = f"{registry.host}/jobs/kept:one"
    assert job(volume, image, NO_GPU="true").returncode == 0
    failed = job(volume, f"{registry.host}/jobs/kept:none", NO_GPU="true")
    assert failed.returncode == 1
    assert "NotFound" in failed.stderr
    assert visible(volume) == {key("C")}
    assert (volume / ".initialized").read_text() == image
    assert list(volume.glob(".extracting.*")) == []


async def test_a_cache_that_does_not_fit_is_refused_unless_the_check_is_off(
    registry: RunningRegistry, tmp_path: Path
) -> None:
    await publish(registry.host, tmp_path, "D", tag="one", repository="jobs/fit")
    image, volume = f"{registry.host}/jobs/fit:one", tmp_path / "volume"
    # NO_GPU means nothing where GPUs are simulated: the simulated ones are checked against.
    misfit = job(volume, image, GKM_SIMULATED_GPUS=H100, NO_GPU="true")
    assert misfit.returncode == 1
    assert "Incompatible" in misfit.stderr
    assert "sm_80" in misfit.stderr
    assert visible(volume) == set()
    assert job(volume, image, GKM_SIMULATED_GPUS=A100).returncode == 0
    assert visible(volume) == {key("D")}


async def test_what_a_killed_job_left_is_cleared_away(registry: RunningRegistry, tmp_path: Path) -> None:
    await publish(registry.host, tmp_path, "E", tag="one", repository="jobs/cleared")
    volume = tmp_path / "volume"
    (volume / ".extracting.dead" / "tree").mkdir(parents=True)
    (volume / "half").write_text("of an earlier tree")
    done = job(volume, f"{registry.host}/jobs/cleared:one", NO_GPU="true")
    assert done.returncode == 0, done.stderr
    assert visible(volume) == {key("E")}
    assert list(volume.glob(".extracting.*")) == []


@pytest.mark.parametrize("missing", ["GKM_CACHE_DIR", "GKM_IMAGE_URL"])
def test_a_job_without_its_environment_says_what_to_set(tmp_path: Path, missing: str) -> None:
    failed = job(tmp_path / "volume", "registry.example/a:1", **{missing: ""})
    assert failed.returncode == 1
    assert missing in failed.stderr
    assert not (tmp_path / "volume").exists()


def test_other_arguments_are_refused() -> None:
    for arguments in (["stage"], ["stage", "x"], ["stage", "1", "2"], ["help"]):
        command = [sys.executable, "-P", "-m", "gkm.processes.extract", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 1
        assert "usage" in done.stderr
