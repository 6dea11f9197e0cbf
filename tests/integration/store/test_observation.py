"""What a command opened is what is reported: from other namespaces too, and honest where events were lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gkm.store.attach import attach, detach
from gkm.store.fanotify_watch import FanotifyWatch
from gkm.store.inotify_watch import InotifyWatch
from gkm.store.linux.fanotify import Fanotify
from gkm.store.mode import Mode
from gkm.store.observe import watch
from gkm.store.prepare import prepared_mount
from gkm.store.session import run_in_view
from gkm.store.store import Store
from support.users import OrdinaryUser
from support.views import seal_files, triton_files

WRITE_TEMPORARIES = """
import os, sys
os.chdir(sys.argv[1])
open("a/one").close()
for number in range(2000):
    os.mkdir("tmp")
    with open("tmp/file", "w") as file:
        file.write("x")
    if number % 2:
        os.replace("tmp/file", "b/kept")
    else:
        os.unlink("tmp/file")
    os.rmdir("tmp")
"""

FILES = {"a/one": b"1", "a/two": b"2", "b/three": b"3", "four": b"4"}


def test_exactly_the_files_that_were_opened(store: Store, mode: Mode) -> None:
    tree = seal_files(store, FILES)
    with prepared_mount(store, tree, mode=mode) as prepared:
        script = "ls -lR VIEW > /dev/null; cat VIEW/a/one VIEW/four; test -e VIEW/a/two; echo x > VIEW/b/new"
        argv = ["sh", "-c", script.replace("VIEW", str(prepared.target))]
        observation = run_in_view(prepared, argv, dict(os.environ)).observation
    assert observation.kind == "complete"
    assert observation.opened == {"a/one", "four", "b/new"}


def test_identical_files_are_told_apart_though_they_are_one_in_the_sealed_tree(
    store: Store, mode: Mode
) -> None:
    tree = seal_files(store, {"a/code": b"same", "b/code": b"same"})
    assert (tree.path / "a/code").samefile(tree.path / "b/code")
    with prepared_mount(store, tree, mode=mode) as prepared:
        argv = ["cat", f"{prepared.target}/b/code"]
        assert run_in_view(prepared, argv, dict(os.environ)).observation.opened == {"b/code"}


def test_files_that_were_deleted_after_they_were_read_still_count(store: Store, mode: Mode) -> None:
    tree = seal_files(store, FILES)
    with prepared_mount(store, tree, mode=mode) as prepared:
        argv = ["sh", "-c", f"cd {prepared.target} && cat a/one && rm a/one"]
        assert "a/one" in run_in_view(prepared, argv, dict(os.environ)).observation.opened


def test_listening_ends_once_all_payload_was_seen(store: Store) -> None:
    """Whoever reads a cache again and again pays for it only once."""
    tree = seal_files(store, triton_files("add"))
    entry = "ADD" + "A" * 49
    with prepared_mount(store, tree) as prepared:
        reads = f"cd {prepared.target}/{entry}; cat add.cubin add.json __grp__add.json; sleep 0.3; cat late"
        (prepared.upper / entry).mkdir(mode=0o777)
        (prepared.upper / entry / "late").write_text("x")
        observation = run_in_view(prepared, ["sh", "-c", reads], dict(os.environ)).observation
    assert prepared.payload <= observation.opened
    assert observation.kind == "complete"


@pytest.mark.root
def test_opens_in_another_mount_namespace_at_another_path_are_placed(store: Store, tmp_path: Path) -> None:
    """As in a container, whose runtime binds the view somewhere of its own."""
    tree = seal_files(store, FILES)
    elsewhere = tmp_path / "cache"
    elsewhere.mkdir()
    with prepared_mount(store, tree, mode=Mode.OVERLAY) as prepared:
        attach(prepared)
        try:
            seen = watch(prepared.target)
            script = f"mount --bind {prepared.target} {elsewhere} && cat {elsewhere}/a/one"
            subprocess.run(["unshare", "--mount", "sh", "-c", script], check=True, capture_output=True)
            observation = seen.finish()
        finally:
            detach(prepared)
    assert observation.opened == {"a/one"}
    assert observation.kind == "complete"


PART = {"part/x/one": b"1", "part/x/two": b"2", "part/y/two": b"2", "part/three": b"3", "four": b"4"}


@pytest.mark.root
@pytest.mark.parametrize(
    ("opened", "seen_as"),
    [
        (["x/one"], {"part/x/one"}),
        (["x/two"], {"part/x/two"}),  # one with y/two in the sealed tree
        (["y/two", "three"], {"part/y/two"}),
        (["three", "new"], set()),
    ],
)
def test_opens_in_a_part_of_the_view_mounted_alone_are_told_by_the_file(
    store: Store, tmp_path: Path, opened: list[str], seen_as: set[str]
) -> None:
    """As with a subPath that the mountPath does not end in."""
    tree = seal_files(store, PART)
    assert (tree.path / "part/x/two").samefile(tree.path / "part/y/two")
    elsewhere = tmp_path / "cache"
    elsewhere.mkdir()
    wanted = {"part/x/one", "part/x/two", "part/y/two", "four"}
    with prepared_mount(store, tree, mode=Mode.OVERLAY) as prepared:
        attach(prepared)
        try:
            seen = watch(prepared.target, wanted)
            reads = " && ".join(f"cat {elsewhere}/{name}" for name in opened)
            script = f"mount --bind {prepared.target}/part {elsewhere} && echo > {elsewhere}/new && {reads}"
            subprocess.run(["unshare", "--mount", "sh", "-c", script], check=True, capture_output=True)
            observation = seen.finish()
        finally:
            detach(prepared)
    assert observation.kind == "complete"
    assert observation.opened == seen_as


@pytest.mark.parametrize("mounted", [pytest.param(True, marks=pytest.mark.root), False])
def test_only_wanted_files_are_told_of(tmp_path: Path, mounted: bool) -> None:
    """Else a workload that makes up names would fill the memory of whoever observes it."""
    seen = watch(tmp_path, {"one"}, mounted=mounted)
    subprocess.run(["sh", "-c", f"cd {tmp_path} && echo > one && echo > made-up"], check=True)
    observation = seen.finish()
    assert observation.kind == "complete"
    assert observation.opened == {"one"}


@pytest.mark.root
def test_an_open_that_cannot_be_placed_makes_the_observation_partial(store: Store, tmp_path: Path) -> None:
    tree = seal_files(store, FILES)
    elsewhere = tmp_path / "cache"
    elsewhere.mkdir()
    with prepared_mount(store, tree, mode=Mode.OVERLAY) as prepared:
        attach(prepared)
        try:
            seen = watch(prepared.target)
            # Only a part of the view is there, as with a subPath: the path's end is not the view's.
            script = f"mount --bind {prepared.target}/a {elsewhere} && cat {elsewhere}/one"
            subprocess.run(["unshare", "--mount", "sh", "-c", script], check=True, capture_output=True)
            observation = seen.finish()
        finally:
            detach(prepared)
    assert (observation.kind, observation.reason) == ("partial", "Unplaced")


@pytest.mark.root
def test_temporaries_that_are_renamed_or_deleted_while_they_are_looked_at_leave_it_complete(
    store: Store, tmp_path: Path
) -> None:
    """A compiler in a container writes each file under another name first."""
    tree = seal_files(store, FILES)
    elsewhere = tmp_path / "cache"
    elsewhere.mkdir()
    with prepared_mount(store, tree, mode=Mode.OVERLAY) as prepared:
        attach(prepared)
        try:
            seen = watch(prepared.target)
            workload = (
                f"mount --bind {prepared.target} {elsewhere} && "
                f"exec {sys.executable} -I -S -c '{WRITE_TEMPORARIES}' {elsewhere}"
            )
            with subprocess.Popen(["unshare", "--mount", "sh", "-c", workload]) as running:
                while running.poll() is None:
                    seen.drain()
            observation = seen.finish()
        finally:
            detach(prepared)
    assert running.returncode == 0
    assert (observation.kind, observation.reason) == ("complete", None)
    assert "a/one" in observation.opened


@pytest.mark.root
def test_a_file_that_is_gone_before_it_is_looked_at_is_no_overflow(tmp_path: Path) -> None:
    """The kernel opens a file again for its event, which a removed cgroup's refuses (ENODEV)."""
    subprocess.run(["mount", "-t", "cgroup2", "none", tmp_path], check=True)
    group = tmp_path / f"gkm-test-{os.getpid()}"
    try:
        seen = Fanotify(tmp_path)
        group.mkdir()
        gone = _cat(group / "cgroup.procs")
        group.rmdir()
        still = _cat(tmp_path / "cgroup.procs")
        pids = set()
        for event in seen.events():
            os.close(event.fd)
            pids.add(event.pid)
        seen.close()
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert pids & {gone, still} == {still}
    assert not seen.overflowed


@pytest.mark.root
def test_events_without_a_descriptor_left_make_the_observation_partial(store: Store) -> None:
    program = (
        "import resource, subprocess, sys; from pathlib import Path\n"
        "from gkm.store.fanotify_watch import FanotifyWatch\n"
        "seen = FanotifyWatch(Path(sys.argv[1]))\n"
        "subprocess.run(['sh', '-c', 'cat */* > /dev/null'], cwd=sys.argv[1], check=True)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (seen.fileno() + 1, 64))\n"
        "print(seen.finish())\n"
    )
    files = {f"d/{number}": b"%d" % number for number in range(16)}
    with prepared_mount(store, seal_files(store, files), mode=Mode.OVERLAY) as prepared:
        attach(prepared)
        try:
            command = [sys.executable, "-P", "-c", program, str(prepared.target)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        finally:
            detach(prepared)
    assert "kind='partial', reason='Overflow'" in done.stdout


@pytest.mark.root
def test_a_fifo_does_not_hold_the_observer(store: Store) -> None:
    with prepared_mount(store, None, mode=Mode.OVERLAY) as prepared:
        script = f"cd {prepared.target} && mkfifo pipe && (echo x > pipe &) && cat pipe"
        result = run_in_view(prepared, ["sh", "-c", script], dict(os.environ))
    assert result.exit_status == 0
    assert result.observation.kind == "complete"


@pytest.mark.root
def test_a_full_fanotify_queue_makes_the_observation_partial(store: Store) -> None:
    limit = int(Path("/proc/sys/fs/fanotify/max_queued_events").read_text())
    with prepared_mount(store, None, mode=Mode.OVERLAY) as prepared:
        # Events of the same file and process are merged while they wait: each has to be another file.
        (prepared.layer / "0").touch()
        for number in range(1, limit + 1):
            os.link(prepared.layer / "0", prepared.layer / str(number))
        attach(prepared)
        try:
            seen = FanotifyWatch(prepared.target, unlimited=False)
            open_often(prepared.target, limit + 1, limit + 1)
            observation = seen.finish()
        finally:
            detach(prepared)
    assert (observation.kind, observation.reason) == ("partial", "Overflow")


def test_a_full_inotify_queue_makes_the_observation_partial(tmp_path: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for number in range(200):
        (tmp_path / str(number)).touch()
    seen = InotifyWatch(tmp_path)
    open_often(tmp_path, 200, limit + 1)
    observation = seen.finish()
    assert (observation.kind, observation.reason) == ("partial", "Overflow")


def test_directories_made_meanwhile_are_watched_too(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    seen = InotifyWatch(tmp_path)
    (tmp_path / "old" / "new" / "deep").mkdir(parents=True)
    seen.drain()
    (tmp_path / "old" / "new" / "deep" / "file").write_text("x")
    moved = tmp_path / "moved"
    (tmp_path / "old" / "new" / "deep").rename(moved)
    seen.drain()
    (moved / "later").write_text("x")
    observation = seen.finish()
    assert {"old/new/deep/file", "moved/later"} <= observation.opened


def test_a_directory_that_cannot_be_watched_makes_the_observation_partial(user: OrdinaryUser) -> None:
    program = (
        "import os, sys; from pathlib import Path; from gkm.store.inotify_watch import InotifyWatch\n"
        "view = Path(sys.argv[1]); (view / 'shut').mkdir(mode=0)\n"
        "seen = InotifyWatch(view); (view / 'file').touch(); print(seen.finish())\n"
    )
    done = user.run(user.command(sys.executable, "-P", "-c", program, str(user.home)))
    assert "kind='partial', reason='Unwatched'" in done.stdout, done.stderr
    assert "'file'" in done.stdout


def test_links_out_of_the_view_are_not_followed(tmp_path: Path) -> None:
    outside, view = tmp_path / "outside", tmp_path / "view"
    outside.mkdir()
    view.mkdir()
    (outside / "file").write_text("x")
    (view / "link").symlink_to(outside)
    seen = InotifyWatch(view)
    (outside / "file").read_text()
    assert seen.finish().opened == frozenset()


def test_where_nothing_can_be_watched_nothing_is_claimed(tmp_path: Path) -> None:
    seen = watch(tmp_path / "gone")
    assert seen.fileno() == -1
    seen.drain()
    observation = seen.finish()
    assert observation.kind == "none"
    assert observation.reason
    assert observation.opened == frozenset()


def open_often(directory: Path, files: int, times: int) -> None:
    """`times` opens by another process; neighbouring ones differ, for equal neighbours are merged."""
    program = (
        "import os,sys\n"
        "d, files, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])\n"
        "for n in range(times): os.close(os.open(f'{d}/{n % files}', os.O_RDONLY))\n"
    )
    subprocess.run(["python3", "-I", "-S", "-c", program, str(directory), str(files), str(times)], check=True)


def _cat(path: Path) -> int:
    """Read `path` in another process; its ID."""
    with subprocess.Popen(["cat", path], stdout=subprocess.DEVNULL) as reader:
        pass
    assert reader.returncode == 0
    return reader.pid
