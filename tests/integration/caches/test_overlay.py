"""A real overlay mount: copy-ups are no misses, and files made again are, also with the same bytes."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gkm.caches.relocation import relocate
from gkm.caches.scan import scan
from gkm.caches.upper import added_files
from gkm.caches.usage import Usage, count
from support.made_caches import key, triton_entry

pytestmark = pytest.mark.root


class View:
    """A cache of two kernels under a relocation layer and an upper, mounted."""

    def __init__(self, directory: Path) -> None:
        self.path, self.lower, self.upper = (directory / name for name in ("view", "lower", "upper"))
        layer, work = directory / "layer", directory / "work"
        for path in (self.path, self.upper, layer, work):
            path.mkdir()
        triton_entry(self.lower / key("k"), name="add")
        triton_entry(self.lower / key("l"), name="scale")
        self.inventory = scan(self.lower)
        for file, content in relocate(self.lower, self.inventory, str(self.path)):
            (layer / file).parent.mkdir()
            (layer / file).write_bytes(content)
            shutil.copystat(self.lower / file, layer / file)
        options = f"lowerdir={layer}:{self.lower},upperdir={self.upper},workdir={work}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, self.path], check=True)

    def count(self, *opened: str) -> Usage:
        return count(self.inventory, opened, self.upper, self.lower)


@pytest.fixture
def view(tmp_path: Path) -> Iterator[View]:
    mounted = View(tmp_path)
    try:
        yield mounted
    finally:
        subprocess.run(["umount", mounted.path], check=True)


def test_changes_of_mode_and_times_are_neither_hit_nor_miss(view: View) -> None:
    for file in view.inventory.files:
        (view.path / file).chmod(0o600)
        os.utime(view.path / file)
    assert len(list(view.upper.rglob("add.*"))) == 3

    assert view.count() == Usage(hits=0, misses=0, hit=(), missed=(), helpers_opened=0)
    assert added_files(view.upper, view.lower) == {}


def test_an_entry_made_again_with_the_same_bytes_is_one_miss(view: View) -> None:
    for file in (view.path / key("k")).iterdir():
        temporary = file.with_name(f"new-{file.name}")
        temporary.write_bytes(file.read_bytes())
        temporary.replace(file)

    usage = view.count(f"{key('k')}/add.cubin", f"{key('l')}/scale.cubin")

    assert (usage.hit, [missed.path for missed in usage.missed]) == ((key("l"),), [key("k")])
    assert added_files(view.upper, view.lower) == {}


def test_a_deleted_entry_is_neither(view: View) -> None:
    shutil.rmtree(view.path / key("k"))

    assert view.count().misses == 0
    assert added_files(view.upper, view.lower) == {}


def test_an_entry_deleted_and_made_again_is_a_miss(view: View) -> None:
    shutil.rmtree(view.path / key("k"))
    triton_entry(view.path / key("k"), name="add", num_stages=5)

    usage = view.count(f"{key('k')}/add.cubin")

    assert (usage.hits, usage.misses) == (0, 1)
