"""The program that stands for a workload: it compiles real kernels and counts through Triton's listener."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.triton

TARGETS = ("sm_80", "sm_90", "sm_100", "gfx942", "gfx1100")


def workload(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gkm.local.demo_kernels", *arguments]
    environ = os.environ | {"TRITON_CACHE_DIR": str(cache)}
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def run(cache: Path, report: Path, *arguments: str) -> dict[str, object]:
    done = workload(cache, "--report", str(report), *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    told: dict[str, object] = json.loads(report.read_bytes())
    return told


def entries(cache: Path) -> list[Path]:
    return sorted(group.parent for group in cache.glob("*/__grp__*.json"))


def test_it_compiles_for_every_target_once_and_hits_its_own_cache(tmp_path: Path) -> None:
    cache, report = tmp_path / "cache", tmp_path / "report.json"
    arguments = ("--targets", ",".join(TARGETS), "--kernels", "3")

    cold = run(cache, report, *arguments)
    assert (cold["compiled"], cold["hits"], cold["kernels"]) == (15, 0, 3)
    assert cold["targets"] == list(TARGETS)
    assert 0 < float(str(cold["importSeconds"])) < float(str(cold["seconds"]))
    assert len(entries(cache)) == 15
    compiled_for = {
        str(json.loads(path.read_bytes())["target"]["arch"])
        for entry in entries(cache)
        for path in entry.glob("[!_]*.json")
    }
    assert compiled_for == {"80", "90", "100", "gfx942", "gfx1100"}

    warm = run(cache, report, *arguments)
    assert (warm["compiled"], warm["hits"]) == (0, 15)

    more = run(cache, report, *arguments, "--extra")
    assert (more["compiled"], more["hits"], more["kernels"]) == (5, 15, 4)


def test_all_its_kernels_compile_and_more_of_them_are_variants(tmp_path: Path) -> None:
    cache, report = tmp_path / "cache", tmp_path / "report.json"
    told = run(cache, report, "--targets", "gfx942", "--kernels", "14", "--extra")
    assert (told["compiled"], told["kernels"]) == (15, 15)
    names = [path.stem for entry in entries(cache) for path in entry.glob("[!_]*.json")]
    assert (len(names), len(set(names))) == (15, 13)


def test_a_moved_cache_is_compiled_anew_in_silence(tmp_path: Path) -> None:
    """The reason for relocation: Triton's group files hold absolute paths."""
    run(tmp_path / "here", tmp_path / "report.json", "--kernels", "2")
    (tmp_path / "here").rename(tmp_path / "there")
    moved = run(tmp_path / "there", tmp_path / "report.json", "--kernels", "2")
    assert (moved["compiled"], moved["hits"]) == (2, 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--targets", "H100"], "'H100' is no target: write sm_90 or gfx942"),
        (["--targets", ""], "'' is no target"),
        (["--kernels", "0"], "'0' is not a number from 1 to 144"),
        (["--kernels", "many"], "'many' is not a number"),
    ],
)
def test_wrong_arguments_are_refused_before_triton_is_touched(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    done = workload(tmp_path / "cache", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "cache").exists()


def test_a_target_that_triton_does_not_know_is_named_and_no_report_is_written(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = workload(tmp_path / "cache", "--targets", "sm_999", "--kernels", "1", "--report", str(report))
    assert done.returncode == 1
    assert "cannot compile add for sm_999" in done.stderr
    assert "Traceback" not in done.stderr
    assert not report.exists()
