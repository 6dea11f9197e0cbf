"""What counts as a hit, as a miss, and as neither."""

import os
import shutil
from pathlib import Path

import pytest

from gkm.caches.model import Inventory
from gkm.caches.relocation import relocate
from gkm.caches.scan import scan
from gkm.caches.tree import TreeTooLargeError
from gkm.caches.upper import added_files
from gkm.caches.usage import Usage, count
from gkm.caches.walk import TreeLimits
from support.made_caches import (
    AUTOGRAD_KEY,
    CODE_NAME,
    elf,
    inductor_cache,
    key,
    triton_entry,
    vllm_cache,
    write,
)

EMPTY = Inventory(formats=(), files=(), bytes=0)
VIEW = "/view"


class Mount:
    """A sealed tree with two kernels and a launcher, an upper, and helpers to write into it as a workload does."""

    def __init__(self, directory: Path) -> None:
        self.lower = directory / "lower"
        self.upper = directory / "upper"
        self.upper.mkdir(parents=True)
        triton_entry(self.lower / key("k"), name="add", stood_at="/old/" + key("k"))
        triton_entry(self.lower / key("l"), name="scale", stood_at="/old/" + key("l"), num_stages=3)
        write(self.lower / key("z") / "__triton_launcher.so", elf(62))
        for path in self.lower.rglob("*"):
            os.utime(path, ns=(10**18, 10**18))
        self.inventory = scan(self.lower)

    def copy_up(self, path: str) -> Path:
        """What overlayfs does before a change of mode: the same bytes and times."""
        target = write(self.upper / path, b"")
        shutil.copy2(self.lower / path, target)
        target.chmod(0o600)
        return target

    def count(self, *opened: str) -> Usage:
        return count(self.inventory, opened, self.upper, self.lower)


@pytest.fixture
def mount(tmp_path: Path) -> Mount:
    return Mount(tmp_path)


def test_an_entry_whose_payload_was_opened_is_a_hit(mount: Mount) -> None:
    usage = mount.count(f"{key('k')}/add.cubin", f"{key('k')}/add.json", "unknown")

    assert (usage.hits, usage.misses, usage.hit) == (1, 0, (key("k"),))
    assert usage.missed == ()


def test_reading_the_group_alone_is_no_hit(mount: Mount) -> None:
    assert mount.count(f"{key('k')}/__grp__add.json").hits == 0


def test_launchers_are_counted_apart(mount: Mount) -> None:
    usage = mount.count(f"{key('z')}/__triton_launcher.so")

    assert (usage.hits, usage.helpers_opened) == (0, 1)
    write(mount.upper / key("y") / "__triton_launcher.so", elf(62))
    assert mount.count().misses == 0


def test_a_new_entry_is_one_miss(mount: Mount) -> None:
    triton_entry(mount.upper / key("m"), name="total")

    usage = mount.count(f"{key('k')}/add.cubin", f"{key('m')}/total.cubin")

    assert (usage.hits, usage.misses) == (1, 1)
    (missed,) = usage.missed
    assert (missed.path, missed.name, missed.format) == (key("m"), "total", "triton")
    assert missed.differences == ("the cache has no entry of this name",)


def test_an_entry_made_again_with_the_same_bytes_is_one_miss_and_no_hit(mount: Mount) -> None:
    shutil.copytree(mount.lower / key("k"), mount.upper / key("k"), copy_function=shutil.copyfile)

    usage = mount.count(f"{key('k')}/add.cubin")

    assert (usage.hits, usage.misses) == (0, 1)
    assert "did not accept it" in usage.missed[0].differences[0]
    assert added_files(mount.upper, mount.lower) == {}


def test_an_entry_whose_code_alone_was_made_again_is_a_miss(mount: Mount) -> None:
    write(mount.upper / key("k") / "add.cubin", "other code")

    usage = mount.count(f"{key('k')}/add.cubin")

    assert (usage.hits, usage.misses) == (0, 1)


def test_a_copy_up_is_neither(mount: Mount) -> None:
    for path in mount.inventory.files:
        mount.copy_up(path)

    usage = mount.count(f"{key('k')}/add.cubin")

    assert (usage.hits, usage.misses) == (1, 0)
    assert added_files(mount.upper, mount.lower) == {}


def test_a_copy_up_of_a_relocated_file_is_neither(mount: Mount) -> None:
    for path, content in relocate(mount.lower, mount.inventory, VIEW):
        os.utime(write(mount.upper / path, content), ns=(10**18, 10**18))

    assert mount.count(f"{key('k')}/add.cubin").hits == 1
    assert mount.count().misses == 0
    assert added_files(mount.upper, mount.lower) == {}


def test_the_marks_of_overlayfs_tell_a_copy_up_whatever_its_times(mount: Mount) -> None:
    copy = mount.copy_up(f"{key('k')}/add.cubin")
    os.utime(copy)
    assert mount.count().misses == 1

    try:
        os.setxattr(copy, "user.overlay.origin", b"")
    except OSError:
        pytest.skip("this filesystem has no user extended attributes")
    assert mount.count(f"{key('k')}/add.cubin").misses == 0


def test_locks_and_half_written_directories_are_neither(mount: Mount) -> None:
    write(mount.upper / "locks" / "x.lock", "")
    write(mount.upper / key("m") / "tmp.pid_1_2" / "__grp__add.json", "{}")

    assert mount.count() == Usage(hits=0, misses=0, hit=(), missed=(), helpers_opened=0)
    assert list(added_files(mount.upper, mount.lower)) == ["locks/x.lock"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_warps": 8}, ("num_warps: 8, in the cache 4",)),
        ({"triton": "3.8.0"}, ("triton: 3.8.0, in the cache 3.9.0",)),
        ({"triton": None}, ("triton: not told, in the cache 3.9.0",)),
        (
            {"backend": "hip", "arch": "gfx942", "warp_size": 64},
            ("target: hip gfx942 (warp size 64), in the cache cuda sm_80 (warp size 32)",),
        ),
    ],
)
def test_what_sets_a_miss_apart_is_said(
    mount: Mount, changes: dict[str, object], words: tuple[str, ...]
) -> None:
    triton_entry(mount.upper / key("m"), name="add", **changes)

    assert mount.count().missed[0].differences == words


def test_a_miss_that_no_recorded_fact_explains_says_so(mount: Mount) -> None:
    triton_entry(mount.upper / key("m"), name="add")

    assert mount.count().missed[0].differences[0].startswith("no recorded fact differs")


def test_the_nearest_of_several_namesakes_is_compared(tmp_path: Path) -> None:
    mount = Mount(tmp_path)
    triton_entry(mount.lower / key("n"), name="add", arch=90, num_warps=8)
    mount.inventory = scan(mount.lower)
    triton_entry(mount.upper / key("m"), name="add", arch=90, num_warps=4)

    assert mount.count().missed[0].differences == ("num_warps: 4, in the cache 8",)


def test_after_a_cold_start_everything_made_is_a_miss(tmp_path: Path) -> None:
    triton_entry(tmp_path / "upper" / "triton" / key("k"))

    usage = count(EMPTY, (), tmp_path / "upper", tmp_path / "absent")

    assert (usage.hits, usage.misses) == (0, 1)
    assert len(added_files(tmp_path / "upper", tmp_path / "absent")) == 4


def test_inductor_counts_graphs_and_libraries(tmp_path: Path) -> None:
    inductor_cache(tmp_path / "lower")
    (tmp_path / "upper").mkdir()
    inventory = scan(tmp_path / "lower")
    again = write(tmp_path / "upper" / "aotautograd" / AUTOGRAD_KEY / "another", b"\x80\x04new")

    opened = (f"aotautograd/{AUTOGRAD_KEY}/entry", f"d6/{CODE_NAME}.so", f"d6/{CODE_NAME}.cpp")
    usage = count(inventory, opened, tmp_path / "upper", tmp_path / "lower")

    assert usage.hit == (f"d6/{CODE_NAME}.so",)
    assert [m.path for m in usage.missed] == [f"aotautograd/{AUTOGRAD_KEY}"]
    assert added_files(tmp_path / "upper", tmp_path / "lower") == {
        f"aotautograd/{AUTOGRAD_KEY}/another": again
    }


def test_vllm_counts_artifacts_and_not_its_index(tmp_path: Path) -> None:
    vllm_cache(tmp_path / "lower", subgraphs=1)
    vllm_cache(tmp_path / "upper", subgraphs=2)
    inventory = scan(tmp_path / "lower")
    (known,) = inventory.entries
    shutil.copy2(tmp_path / "lower" / known.path, tmp_path / "upper" / known.path)

    usage = count(inventory, known.payload, tmp_path / "upper", tmp_path / "lower")

    assert usage.hit == (known.path,)
    assert [m.name for m in usage.missed] == ["artifact_compile_range_1_2048_subgraph_1"]
    assert {Path(file).name for file in added_files(tmp_path / "upper", tmp_path / "lower")} == {
        "artifact_compile_range_1_2048_subgraph_1",
        "vllm_compile_cache.py",
    }


def test_a_hostile_upper_is_counted_without_following_it(mount: Mount, tmp_path: Path) -> None:
    secret = triton_entry(tmp_path / "elsewhere" / key("s"))
    (mount.upper / key("s")).symlink_to(secret)
    (mount.upper / key("t")).mkdir()
    for name in ("__grp__add.json", "add.cubin"):
        (mount.upper / key("t") / name).symlink_to(secret / name)
    os.mkfifo(mount.upper / "pipe")
    write(mount.upper / key("u") / "__grp__bomb.json", b"[" * 1_000_000)

    usage = mount.count(f"{key('k')}/add.cubin")

    assert usage.hits == 1
    assert [m.path for m in usage.missed] == [key("u")]
    assert list(added_files(mount.upper, mount.lower)) == [f"{key('u')}/__grp__bomb.json"]


def test_an_upper_beyond_its_bounds_is_not_counted_at_all(mount: Mount) -> None:
    for number in range(10):
        write(mount.upper / str(number), "")

    with pytest.raises(TreeTooLargeError):
        count(mount.inventory, (), mount.upper, mount.lower, TreeLimits(entries=9))
