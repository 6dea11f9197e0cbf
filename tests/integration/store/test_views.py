"""A command sees the tree, changes only its own view of it, and leaves nothing; in every mode."""

import json
import os
from pathlib import Path

import pytest

from gkm.base.errors import UsageError
from gkm.store.errors import CommandNotExecutableError, CommandNotFoundError, TargetError
from gkm.store.layers import all_layers
from gkm.store.mode import Mode
from gkm.store.prepare import PreparedMount, prepared_mount
from gkm.store.session import SessionResult, run_in_view
from gkm.store.store import Store
from support.views import everything, seal_files, triton_files

ENTRY = "ADD" + "A" * 49


def run(prepared: PreparedMount, *argv: str, **env: str) -> SessionResult:
    words = [word.replace("VIEW", str(prepared.target)) for word in argv]
    return run_in_view(prepared, words, {**os.environ, **env})


def test_paths_inside_name_the_view_and_the_sealed_tree_keeps_its_bytes(store: Store, mode: Mode) -> None:
    tree = seal_files(store, triton_files("add"))
    before = everything(tree.path)
    with prepared_mount(store, tree, mode=mode) as prepared:
        script = f"cat VIEW/{ENTRY}/__grp__add.json > VIEW/seen; echo new > VIEW/{ENTRY}/add.cubin"
        result = run(prepared, "sh", "-c", script)
        seen = json.loads((prepared.upper / "seen").read_text())
        added = everything(prepared.upper)
    assert result.exit_status == 0
    assert result.mode is mode
    assert seen["child_paths"]["add.cubin"] == f"{prepared.target}/{ENTRY}/add.cubin"
    assert added.keys() == {"seen", f"{ENTRY}/add.cubin"}
    assert added[f"{ENTRY}/add.cubin"] == b"new\n"
    assert everything(tree.path) == before


def test_a_second_view_sees_nothing_of_the_first(store: Store, mode: Mode) -> None:
    tree = seal_files(store, triton_files("add"))
    for number in (1, 2):
        with prepared_mount(store, tree, mode=mode) as prepared:
            script = f"number=$(ls VIEW | wc -l) && rm VIEW/{ENTRY}/add.cubin && echo $number > VIEW/count"
            assert run(prepared, "sh", "-c", script).exit_status == 0, number
            assert (prepared.upper / "count").read_text() == "1\n", number


@pytest.mark.parametrize("mode", [Mode.OVERLAY, Mode.USER_OVERLAY], indirect=True)
def test_secluded_views_share_path_and_layer_and_nothing_else(store: Store, mode: Mode) -> None:
    tree = seal_files(store, triton_files("add"))
    with (
        prepared_mount(store, tree, mode=mode, secluded=True) as outer,
        prepared_mount(store, tree, mode=mode, secluded=True) as inner,
        prepared_mount(store, None, mode=mode, secluded=True) as cold,
    ):
        assert outer.target == inner.target == cold.target == store.layout.view
        for prepared in (outer, inner):
            script = f"test ! -e VIEW/seen && cat VIEW/{ENTRY}/__grp__add.json > VIEW/seen"
            assert run(prepared, "sh", "-c", script).exit_status == 0
            seen = json.loads((prepared.upper / "seen").read_text())
            assert seen["child_paths"]["add.cubin"] == f"{prepared.target}/{ENTRY}/add.cubin"
        assert run(cold, "sh", "-c", 'test -z "$(ls -A VIEW)" && touch VIEW/a').exit_status == 0
        assert len(all_layers(tree.directory)) == 1
        store.collect(layers_unused_seconds=-1)
        assert len(all_layers(tree.directory)) == 1
    assert list(store.layout.view.iterdir()) == []


def test_a_secluded_copy_has_a_directory_of_its_own(store: Store) -> None:
    tree = seal_files(store, triton_files("add"))
    with (
        prepared_mount(store, tree, mode=Mode.COPY, secluded=True) as one,
        prepared_mount(store, tree, mode=Mode.COPY, secluded=True) as other,
    ):
        assert one.target != other.target


def test_a_cold_view_is_empty_and_writable(store: Store, mode: Mode) -> None:
    with prepared_mount(store, None, mode=mode) as prepared:
        result = run(prepared, "sh", "-c", 'test -z "$(ls -A VIEW)" && mkdir -p VIEW/a && echo x > VIEW/a/b')
        assert result.exit_status == 0
        assert everything(prepared.upper) == {"a/b": b"x\n"}


def test_files_in_a_view_can_be_executed(store: Store, mode: Mode) -> None:
    tree = seal_files(store, {"tool": b"#!/bin/sh\nexit 42\n"}, executable={"tool"})
    with prepared_mount(store, tree, mode=mode) as prepared:
        assert run(prepared, "VIEW/tool").exit_status == 42


@pytest.mark.parametrize("mode", [Mode.OVERLAY, Mode.USER_OVERLAY], indirect=True)
def test_overlays_carry_neither_devices_nor_setuid(store: Store, mode: Mode) -> None:
    with prepared_mount(store, None, mode=mode) as prepared:
        run(prepared, "sh", "-c", "grep ' VIEW ' /proc/self/mountinfo > VIEW/options")
        options = (prepared.upper / "options").read_text().split(" ")[5].split(",")
    assert {"nosuid", "nodev"} <= set(options)
    assert "noexec" not in options


def test_the_command_gets_exactly_its_environment_arguments_and_directory(
    store: Store, mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    odd = "\udcff'\" \n"
    with prepared_mount(store, None, mode=mode) as prepared:
        script = (
            "pwd > VIEW/pwd; tr '\\0' '\\n' < /proc/self/environ > VIEW/env; printf %s \"$1\" > VIEW/argument"
        )
        words = [word.replace("VIEW", str(prepared.target)) for word in ("/bin/sh", "-c", script, "sh", odd)]
        run_in_view(prepared, words, {"ONLY": odd})
        seen = everything(prepared.upper)
    assert seen["pwd"] == os.fsencode(f"{tmp_path}\n")
    assert seen["argument"] == os.fsencode(odd)
    assert seen["env"].startswith(b"ONLY=" + os.fsencode(odd))


@pytest.mark.parametrize("status", [0, 1, 126, 127, 255])
def test_exit_status_passes_through(store: Store, status: int) -> None:
    with prepared_mount(store, None) as prepared:
        result = run(prepared, "sh", "-c", f"exit {status}")
    assert (result.returncode, result.exit_status) == (status, status)


def test_death_by_signal_passes_through(store: Store, mode: Mode) -> None:
    with prepared_mount(store, None, mode=mode) as prepared:
        result = run(prepared, "sh", "-c", "kill -USR1 $$")
    assert (result.returncode, result.exit_status) == (-10, 138)


def test_a_command_that_does_not_exist_is_told_from_one_that_exits_so(store: Store, mode: Mode) -> None:
    for name in ("no-such-program-anywhere", "/no/such/path"):
        with (
            prepared_mount(store, None, mode=mode) as prepared,
            pytest.raises(CommandNotFoundError) as caught,
        ):
            run(prepared, name)
        assert caught.value.exit_status == 127
        assert name in str(caught.value)


def test_a_command_that_cannot_be_executed_is_told_from_one_that_exits_so(
    store: Store, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    plain.write_text("data")
    for name in (str(plain), str(tmp_path)):
        with prepared_mount(store, None) as prepared, pytest.raises(CommandNotExecutableError) as caught:
            run(prepared, name)
        assert caught.value.exit_status == 126


def test_a_script_without_an_interpreter_line_runs_in_the_shell(store: Store, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text('exit "$1"\n')
    script.chmod(0o755)
    with prepared_mount(store, None) as prepared:
        assert run(prepared, str(script), "9").exit_status == 9
    with prepared_mount(store, None) as prepared:
        assert run(prepared, "script", "8", PATH=f"/nowhere:{tmp_path}").exit_status == 8


def test_inheritable_descriptors_reach_the_command_and_ours_do_not(store: Store, mode: Mode) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        with prepared_mount(store, None, mode=mode) as prepared:
            script = f"echo through > /proc/self/fd/{writing}; ls -l /proc/self/fd > VIEW/open"
            assert run(prepared, "sh", "-c", script).exit_status == 0
            listing = (prepared.upper / "open").read_text()
        assert os.read(reading, 100) == b"through\n"
        assert str(store.root / "mounts") not in listing.replace(f"{prepared.target}/open", "")
        assert "anon_inode" not in listing
    finally:
        os.close(reading)
        os.close(writing)


def test_a_named_target_is_made_and_taken_away_again(store: Store, mode: Mode, tmp_path: Path) -> None:
    tree = seal_files(store, triton_files("add"))
    target = tmp_path / "made" / "for" / "this"
    with prepared_mount(store, tree, target=target, mode=mode) as prepared:
        script = f"grep -q {target}/{ENTRY}/add.cubin {target}/{ENTRY}/__grp__add.json"
        assert run(prepared, "sh", "-c", script).exit_status == 0
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_exists_stays_and_what_is_in_it_comes_back(
    store: Store, mode: Mode, tmp_path: Path
) -> None:
    if mode is not Mode.COPY:
        (tmp_path / "mine").write_text("precious")
    with prepared_mount(store, None, target=tmp_path, mode=mode) as prepared:
        assert run(prepared, "sh", "-c", "test ! -e VIEW/mine && echo x > VIEW/theirs").exit_status == 0
    assert everything(tmp_path) == ({} if mode is Mode.COPY else {"mine": b"precious"})
    assert tmp_path.is_dir()


def test_the_working_directory_is_the_view_where_the_view_covers_it(
    store: Store, mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tree = seal_files(store, {"here": b""})
    with prepared_mount(store, tree, target=tmp_path, mode=mode) as prepared:
        assert run(prepared, "test", "-e", "here").exit_status == 0


def test_a_working_directory_that_was_deleted_is_no_hindrance(
    store: Store, mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with prepared_mount(store, None, mode=mode) as prepared:
        assert run(prepared, "true").exit_status == 0


@pytest.mark.parametrize("name", ["a,b", "a:b", "a\\b", "with space", "ünï", "a=b"])
def test_a_store_may_stand_at_an_odd_path(open_path: Path, name: str) -> None:
    store = Store.open(open_path / name / "store")
    tree = seal_files(store, {"file": b"content"})
    with prepared_mount(store, tree, mode=store.probe_modes().mode) as prepared:
        result = run(prepared, "cp", "VIEW/file", "VIEW/copy")
        assert result.exit_status == 0
        assert result.observation.opened == {"file", "copy"}
        assert everything(prepared.upper) == {"copy": b"content"}


def test_targets_that_cannot_be_are_refused_before_anything_is_made(
    store: Store, mode: Mode, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    for target in (file, store.root, store.root / "trees" / "x", store.root.parent, Path("/")):
        with pytest.raises(TargetError), prepared_mount(store, None, target=target, mode=mode):
            pass
    assert list(store.layout.mounts.iterdir()) == []
    assert list(tmp_path.iterdir()) == [file]


def test_paths_that_no_cache_can_hold_are_refused_and_nothing_stays(store: Store, tmp_path: Path) -> None:
    tree = seal_files(store, triton_files("add"))
    with (
        pytest.raises(UsageError, match="control characters"),
        prepared_mount(store, tree, target=tmp_path / "tab\there"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_copy_is_not_laid_over_what_is_there(store: Store, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with (
        pytest.raises(TargetError, match="not empty"),
        prepared_mount(store, None, target=tmp_path, mode=Mode.COPY),
    ):
        pass
    assert everything(tmp_path) == {"mine": b"precious"}


def test_a_copy_can_be_written_by_its_owner_alone(store: Store) -> None:
    tree = seal_files(store, {"d/file": b"", "d/tool": b""}, executable={"d/tool"})
    with prepared_mount(store, tree, mode=Mode.COPY) as prepared:
        run(prepared, "sh", "-c", "cd VIEW && stat -c %a . d d/file d/tool > modes")
        assert (prepared.upper / "modes").read_text().split() == ["755", "755", "644", "755"]


def test_a_file_made_again_with_the_same_bytes_shows_in_every_mode(store: Store, mode: Mode) -> None:
    """It says that the compiler did not accept what was there; a chmod says nothing."""
    tree = seal_files(store, {"again": b"same", "touched": b"kept", "read": b"only"})
    with prepared_mount(store, tree, mode=mode) as prepared:
        script = "cd VIEW && printf same > new && mv new again && chmod 600 touched && cat read"
        assert run(prepared, "sh", "-c", script).exit_status == 0
        made = everything(prepared.upper)
    assert made["again"] == b"same"
    assert "read" not in made
    assert made.get("touched", b"kept") == b"kept"


def test_a_process_left_behind_does_not_keep_gkm(store: Store, mode: Mode, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"cd VIEW; setsid sleep 60 < /dev/null > /dev/null 2>&1 & echo $! > {pid_file}"
    try:
        with prepared_mount(store, None, mode=mode) as prepared:
            assert run(prepared, "sh", "-c", script).exit_status == 0
    finally:
        os.kill(int(pid_file.read_text()), 9)
