"""The real Triton hits a cache that was moved and relocated, and what it does is counted as it happened."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gkm.caches.formats.elf import elf_target
from gkm.caches.relocation import relocate
from gkm.caches.scan import scan
from gkm.caches.upper import added_files
from gkm.caches.usage import count
from support.triton_cache import KERNELS, CompileReport

pytestmark = pytest.mark.triton

RealCache = tuple[Path, CompileReport]
Recompile = Callable[..., CompileReport]
ARCHES = {"sm_80", "sm_90", "sm_100", "gfx942", "gfx1100"}


def relocated_copy(cache: Path, to: Path) -> Path:
    shutil.copytree(cache, to)
    for path, content in relocate(cache, scan(cache), str(to)):
        (to / path).write_bytes(content)
        shutil.copystat(cache / path, to / path)
    return to


def opened_by(report: CompileReport, cache: Path) -> set[str]:
    """The payloads of the entries that the listener saw hit."""
    hit = {name.split("@")[0] for name in report.hits}
    return {p for e in scan(cache).entries if e.name in hit for p in e.payload}


def test_a_real_cache_is_read_as_it_was_compiled(real_cache: RealCache) -> None:
    directory, report = real_cache
    inventory = scan(directory)

    assert len(report.compiled) == len(ARCHES) * len(KERNELS)
    assert len(inventory.entries) == len(report.compiled)
    assert {target.arch for target in inventory.targets} == ARCHES
    assert {entry.name for entry in inventory.entries} == set(KERNELS)
    assert {entry.toolchain.triton for entry in inventory.entries} == {report.triton}
    assert {r.root for f in inventory.formats for r in f.relocatable} == {str(directory)}
    assert sum(e.bytes for e in inventory.entries) == inventory.bytes


def test_the_code_itself_says_the_same_target(real_cache: RealCache) -> None:
    directory, _ = real_cache

    for entry in scan(directory).entries:
        header = (directory / entry.payload[0]).read_bytes()[:64]
        assert (elf_target(header),) == entry.targets


def test_moved_without_relocation_everything_is_compiled_again_and_counted(
    real_cache: RealCache, recompile: Recompile, tmp_path: Path
) -> None:
    cache, report = real_cache
    moved = tmp_path / "moved"
    shutil.copytree(cache, moved)
    shutil.move(cache, aside := tmp_path / "aside")
    try:
        again = recompile(moved)
    finally:
        shutil.move(aside, cache)

    assert again.hits == ()
    assert sorted(again.compiled) == sorted(report.compiled)
    usage = count(scan(cache), opened_by(report, cache), moved, cache)
    assert (usage.hits, usage.misses) == (0, len(report.compiled))
    assert all("did not accept it" in missed.differences[0] for missed in usage.missed)


def test_relocated_everything_hits_and_nothing_is_compiled(
    real_cache: RealCache, recompile: Recompile, tmp_path: Path
) -> None:
    cache, report = real_cache
    moved = relocated_copy(cache, tmp_path / "other" / "place")

    again = recompile(moved)

    assert again.compiled == ()
    assert sorted(again.hits) == sorted(report.compiled)
    usage = count(scan(cache), opened_by(again, cache), moved, cache)
    assert usage.misses == 0
    assert usage.hits == len(report.compiled)
    assert added_files(moved, cache) == {}


def test_a_kernel_more_is_one_miss_for_each_target_and_is_captured(
    real_cache: RealCache, recompile: Recompile, tmp_path: Path
) -> None:
    cache, report = real_cache
    moved = relocated_copy(cache, tmp_path / "moved")

    again = recompile(moved, kernels=(*KERNELS, "total"))

    assert sorted(again.compiled) == sorted(f"total@{arch.removeprefix('sm_')}" for arch in ARCHES)
    usage = count(scan(cache), opened_by(again, cache), moved, cache)
    assert (usage.hits, usage.misses) == (len(report.compiled), len(ARCHES))
    assert {missed.name for missed in usage.missed} == {"total"}
    assert {m.differences for m in usage.missed} == {("the cache has no entry of this name",)}
    captured = {Path(path).parent.name for path in added_files(moved, cache)}
    assert captured == {missed.path for missed in usage.missed}


def test_another_option_is_named_as_what_differs(
    real_cache: RealCache, recompile: Recompile, tmp_path: Path
) -> None:
    cache, _ = real_cache
    moved = relocated_copy(cache, tmp_path / "moved")

    again = recompile(moved, kernels=("add",), num_warps=8)

    usage = count(scan(cache), (), moved, cache)
    assert usage.misses == len(again.compiled) == len(ARCHES)
    assert all("num_warps: 8, in the cache 4" in missed.differences for missed in usage.missed)
    assert not any(line.startswith("target:") for missed in usage.missed for line in missed.differences)
