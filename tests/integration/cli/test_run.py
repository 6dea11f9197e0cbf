"""`gkm run`: warm, cold, captured, refused; the command's status and signals pass through."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support.command import GKM, compiled, gkm, gkm_json, workload

pytestmark = pytest.mark.triton


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A layout directory with `kernels:v1`: two kernels for gfx942, from a first cold run."""
    root = tmp_path_factory.mktemp("images")
    gkm(
        "run", "--save", f"oci:{root}/layout:v1", "--", *workload(root / "cold.json", ("gfx942",)),
        env={"GKM_STORE": str(root / "store")},
    )  # fmt: skip
    assert compiled(root / "cold.json") == 2
    return f"oci:{root}/layout:v1"


def run_report(tmp_path: Path, *arguments: str, status: int = 0, **environment: str) -> dict[str, Any]:
    """`gkm run` with a report; its document."""
    report = tmp_path / "run.json"
    report.unlink(missing_ok=True)
    gkm("run", "--report", report, *arguments, env=environment, status=status)
    return dict(json.loads(report.read_text()))


def test_a_captured_first_run_is_hit_by_the_second(images: str, tmp_path: Path) -> None:
    program = workload(tmp_path / "warm.json", ("gfx942",))
    report = run_report(tmp_path, "--cache", images, "--require-hit", "--", *program)
    assert compiled(tmp_path / "warm.json") == 0
    assert (report["hits"], report["misses"], report["observation"]) == (2, 0, "complete")
    assert report["digest"].startswith("sha256:")


def test_a_kernel_that_is_not_in_the_cache_is_one_miss_with_its_differences(
    images: str, tmp_path: Path
) -> None:
    program = workload(tmp_path / "warm.json", ("gfx942",), extra=True)
    report = run_report(tmp_path, "--cache", images, "--", *program)
    assert compiled(tmp_path / "warm.json") == 1
    assert (report["hits"], report["misses"], report["compiled"]) == (2, 1, 1)
    [missed] = report["missed"]
    assert missed["format"] == "triton"
    # The miss stayed in this run's view: the next run misses it again.
    assert run_report(tmp_path, "--cache", images, "--", *program)["misses"] == 1


def test_capture_with_one_new_kernel_makes_an_image_with_that_entry_more(images: str, tmp_path: Path) -> None:
    more = f"oci:{tmp_path}/more:v2"
    program = workload(tmp_path / "first.json", ("gfx942",), extra=True)
    report = run_report(tmp_path, "--cache", images, "--save", more, "--", *program)
    assert report["saved"].startswith("sha256:")
    difference = gkm_json("diff", images, more, status=1)
    assert len(difference["added"]) == 1
    assert difference["removed"] == difference["changed"] == []
    again = run_report(tmp_path, "--cache", more, "--require-hit", "--", *program)
    assert compiled(tmp_path / "first.json") == 0
    assert (again["hits"], again["misses"]) == (3, 0)


def test_one_used_entry_of_two_is_one_hit(images: str, tmp_path: Path) -> None:
    program = workload(tmp_path / "warm.json", ("gfx942",), kernels=1)
    report = run_report(tmp_path, "--cache", images, "--", *program)
    assert (report["hits"], report["entries"]) == (1, 2)


def test_an_incompatible_cache_starts_cold_and_says_why(images: str, tmp_path: Path) -> None:
    program = workload(tmp_path / "cold.json", ("sm_90",))
    report = run_report(tmp_path, "--cache", images, "--", *program, GKM_SIMULATED_GPUS="1xH100")
    assert report["cold"]
    assert report["verdict"] == "Incompatible"
    assert "gfx942" in report["coldBecause"]
    assert "sm_90" in report["coldBecause"]
    assert report["compiled"] == compiled(tmp_path / "cold.json") == 2
    assert report["misses"] == 0


def test_require_hit_refuses_an_incompatible_cache_before_the_command(images: str, tmp_path: Path) -> None:
    done = gkm(
        "run", "--cache", images, "--require-hit", "--", "touch", tmp_path / "started",
        env={"GKM_SIMULATED_GPUS": "1xH100"}, status=125,
    )  # fmt: skip
    assert "gfx942" in done.stderr
    assert not (tmp_path / "started").exists()


def test_require_hit_fails_after_a_miss(images: str, tmp_path: Path) -> None:
    program = workload(tmp_path / "warm.json", ("gfx942",), extra=True)
    gkm("run", "--cache", images, "--require-hit", "--", *program, status=125)


def test_without_a_gpu_the_verdict_is_unknown_and_the_cache_is_mounted(images: str, tmp_path: Path) -> None:
    if gkm_json("gpus")["gpus"]:
        pytest.skip("this machine has a GPU")
    report = run_report(tmp_path, "--cache", images, "--", *workload(tmp_path / "w.json", ("gfx942",)))
    assert (report["verdict"], report["reason"], report["cold"]) == ("Unknown", "NoGPU", False)


def test_a_registry_that_is_down_means_a_cold_start(tmp_path: Path) -> None:
    done = gkm("run", "--cache", "127.0.0.1:1/caches/gone:v1", "--", "echo", "started")
    assert "started" in done.stdout
    assert "127.0.0.1:1" in done.stderr
    gkm("run", "--cache", "127.0.0.1:1/caches/gone:v1", "--require-hit", "--", "echo", "started", status=125)


def test_the_command_sees_the_path_it_was_promised(images: str, tmp_path: Path) -> None:
    view = tmp_path / "promised" / "path"
    done = gkm(
        "run",
        "--cache",
        images,
        "--mount",
        view,
        "--",
        "sh",
        "-c",
        'echo "$TRITON_CACHE_DIR"; ls "$TRITON_CACHE_DIR"',
    )
    first, *names = done.stdout.split()
    assert first == str(view)
    assert len(names) >= 2
    assert not view.exists() or not any(view.iterdir())


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "exit 127"], 127),
        (["sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM),
        (["sh", "-c", "kill -KILL $$"], 128 + signal.SIGKILL),
        (["/no/such/program"], 127),
        (["/etc/passwd"], 126),
    ],
)
def test_exit_statuses_are_those_of_env(images: str, command: list[str], status: int) -> None:
    gkm("run", "--cache", images, "--", *command, status=status)


def test_own_failures_are_125(tmp_path: Path) -> None:
    gkm("run", "--cache", "not a reference", "--", "true", status=125)
    gkm("run", "--no-such-option", "--", "true", status=125)
    gkm("run", status=125)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_the_command_and_leave_nothing_behind(images: str, tmp_path: Path, number: int) -> None:
    store = tmp_path / "store"
    script = (
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(42))\n"
        f"open({str(tmp_path / 'ready')!r}, 'w').close()\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [GKM, "run", "--cache", images, "--", sys.executable, "-c", script],
        env={**os.environ, "GKM_STORE": str(store)},
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "ready").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    assert process.wait(timeout=60) == 42
    assert str(store) not in Path("/proc/self/mountinfo").read_text()
    assert gkm_json("store", "ls", "--store", store)["trees"][0]["mounts"] == 0


def test_the_report_on_stdout_is_one_document(images: str, tmp_path: Path) -> None:
    done = gkm("run", "--cache", images, "--output", "json", "--", "echo", "from the command")
    assert json.loads(done.stdout)["exitStatus"] == 0
    assert "from the command" in done.stderr


def test_a_capture_that_cannot_be_written_is_kept(tmp_path: Path) -> None:
    done = gkm(
        "run", "--save", "127.0.0.1:1/nobody/there:v1", "--", *workload(tmp_path / "w.json", ("sm_90",), kernels=1),
        status=125,
    )  # fmt: skip
    kept = next(word for word in done.stderr.split() if word.startswith("oci:"))
    assert gkm_json("inspect", kept)["formats"][0]["format"] == "triton"


def test_a_run_that_made_nothing_saves_nothing_and_says_so(tmp_path: Path) -> None:
    report = run_report(tmp_path, "--save", f"oci:{tmp_path}/none:v1", "--", "true")
    assert report["saved"] is None
    assert not (tmp_path / "none").exists()
