"""Signals and the terminal: the command is alone with them, gkm only passes on what would not reach it."""

import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gkm.store.linux.mountinfo import mounts
from gkm.store.mode import Mode
from gkm.store.store import Store
from support.views import program_command

# Counts the signals it gets, says when it is ready, and ends a moment after the first.
COUNTER = """
import os, signal, sys, time
got = []
for name in sys.argv[2].split(","):
    signal.signal(getattr(signal, name), lambda number, frame: got.append(signal.Signals(number).name))
open(sys.argv[1] + ".new", "w").write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
for _ in range(600):
    time.sleep(0.05)
    if got:
        time.sleep(0.5)
        break
open(sys.argv[1] + ".got", "w").write(" ".join(got))
sys.exit(7)
"""


def wait_for(path: Path) -> str:
    for _ in range(1200):
        if path.exists():
            return path.read_text()
        time.sleep(0.05)
    raise AssertionError(f"{path} did not appear")


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until_ended(pid: int) -> None:
    for _ in range(1200):
        if ended(pid):
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} lives on")


def counter(store: Store, ready: Path, names: str, **more: object) -> list[str]:
    argv = [sys.executable, "-I", "-S", "-c", COUNTER, str(ready), names]
    return program_command(store.root, argv, **more)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2"])
def test_a_signal_sent_to_gkm_reaches_the_command_once(store: Store, tmp_path: Path, name: str) -> None:
    ready = tmp_path / "ready"
    with subprocess.Popen(counter(store, ready, name), stdout=subprocess.PIPE, text=True) as program:
        wait_for(ready)
        program.send_signal(getattr(signal, name))
        out, _ = program.communicate(timeout=60)
    assert Path(f"{ready}.got").read_text() == name
    assert json.loads(out)["exit"] == 7


def test_a_command_that_ignores_a_signal_goes_on(store: Store, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"trap '' TERM; echo > {ready}; sleep 0.5; exit 5"
    with subprocess.Popen(
        program_command(store.root, ["sh", "-c", script]), stdout=subprocess.PIPE, text=True
    ) as program:
        wait_for(ready)
        program.terminate()
        out, _ = program.communicate(timeout=60)
    assert json.loads(out)["exit"] == 5


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """A pseudo-terminal: our end and the programs' end."""
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def in_terminal(command: list[str], theirs: int, **more: object) -> "subprocess.Popen[bytes]":
    """Start `command` as the foreground process group of the terminal, as a shell does."""
    take_terminal = (
        "import fcntl,os,sys,termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
        " os.execvp(sys.argv[1], sys.argv[1:])"
    )
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", take_terminal, *command], stdin=theirs, stdout=theirs, **more
    )


def test_ctrl_c_reaches_the_command_once(store: Store, tmp_path: Path, terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    ready, result = tmp_path / "ready", tmp_path / "result"
    with in_terminal(counter(store, ready, "SIGINT", result=str(result)), theirs) as program:
        wait_for(ready)
        os.write(ours, b"\x03")
        assert program.wait(60) == 0
    assert Path(f"{ready}.got").read_text() == "SIGINT"
    assert json.loads(result.read_text())["exit"] == 7


def test_ctrl_c_ends_a_plain_command_and_leaves_nothing(
    store: Store, tmp_path: Path, terminal: tuple[int, int]
) -> None:
    ours, theirs = terminal
    ready, result = tmp_path / "ready", tmp_path / "result"
    argv = ["sh", "-c", f"echo > {ready}; exec sleep 60"]
    with in_terminal(program_command(store.root, argv, result=str(result)), theirs) as program:
        wait_for(ready)
        os.write(ours, b"\x03")
        assert program.wait(60) == 0
    assert json.loads(result.read_text())["exit"] == 130


def test_ctrl_c_while_the_view_is_being_mounted_is_not_lost(
    store: Store, tmp_path: Path, terminal: tuple[int, int]
) -> None:
    ours, theirs = terminal
    result = tmp_path / "result"
    with in_terminal(program_command(store.root, ["sleep", "200"], result=str(result)), theirs) as program:
        wait_for_child(program.pid, "gkm.store.supervise")
        os.write(ours, b"\x03")
        assert program.wait(60) == 0
    assert json.loads(result.read_text())["exit"] == 130


def wait_for_child(pid: int, word: str) -> None:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    for _ in range(60_000):
        for child in children.read_text().split():
            try:
                if word in Path(f"/proc/{child}/cmdline").read_text():
                    return
            except (FileNotFoundError, ProcessLookupError):
                continue
        time.sleep(0.001)
    raise AssertionError(f"no child {word} appeared")


def test_the_command_is_in_the_foreground_and_reads_the_terminal(
    store: Store, tmp_path: Path, terminal: tuple[int, int]
) -> None:
    ours, theirs = terminal
    result = tmp_path / "result"
    script = 'read line; test -t 0 && test -t 1 && echo "$line" > VIEW/line; ps -o tpgid=,pgid= -p $$ > VIEW/groups'
    with in_terminal(
        program_command(store.root, ["sh", "-c", script], result=str(result)), theirs
    ) as program:
        os.write(ours, b"typed\n")
        assert program.wait(60) == 0
    upper = json.loads(result.read_text())["upper"]
    assert upper["line"] == "typed\n"
    foreground, own = upper["groups"].split()
    assert foreground == own


def test_ctrl_z_stops_all_and_continuing_resumes(
    store: Store, tmp_path: Path, terminal: tuple[int, int]
) -> None:
    ours, theirs = terminal
    ready, result = tmp_path / "ready", tmp_path / "result"
    argv = ["sh", "-c", f"echo > {ready}; sleep 1; exit 3"]
    # A shell in between is the session's leader: the group of a leader is never stopped by the terminal.
    command = program_command(store.root, argv, result=str(result))
    with in_terminal(["sh", "-c", 'set -m; "$@"; fg', "sh", *command], theirs) as shell:
        wait_for(ready)
        os.write(ours, b"\x1a")
        assert shell.wait(60) == 0
    assert json.loads(result.read_text())["exit"] == 3
    assert termios.tcgetattr(ours)


@pytest.mark.parametrize("mode", [Mode.OVERLAY, Mode.USER_OVERLAY, Mode.COPY], indirect=True)
def test_killing_gkm_ends_the_command_and_the_next_opening_clears_up(
    store: Store, mode: Mode, tmp_path: Path
) -> None:
    ready, target = tmp_path / "ready", tmp_path / "target"
    argv = ["sh", "-c", f"echo $$ > {ready}.new; mv {ready}.new {ready}; exec sleep 60"]
    command = program_command(store.root, argv, mode=mode, target=str(target))
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        pid = int(wait_for(ready))
        (found,) = store.mounts()
        assert found.owned
        assert found.journal.owner.pid == program.pid
        program.kill()
    wait_until_ended(pid)
    wait_until_nobody_owns(store)
    assert [m for m in mounts() if str(store.root) in m.options] == []
    Store.open(store.root)
    assert store.mounts() == []
    assert not target.exists()


def test_a_view_lives_as_long_as_its_command_even_without_gkm(store: Store, tmp_path: Path) -> None:
    ready, stop = tmp_path / "ready", tmp_path / "stop"
    until = f"while ! test -e {stop}; do sleep 0.05; done"
    script = f"trap '' TERM; echo $$ > {ready}.new; mv {ready}.new {ready}; {until}"
    with subprocess.Popen(
        program_command(store.root, ["sh", "-c", script]), stdout=subprocess.PIPE
    ) as program:
        pid = int(wait_for(ready))
        program.kill()
    Store.open(store.root)
    (found,) = store.mounts()
    assert found.owned
    stop.touch()
    wait_until_ended(pid)
    wait_until_nobody_owns(store)
    Store.open(store.root)
    assert store.mounts() == []


def test_killing_the_supervising_process_ends_the_command_and_is_reported(
    store: Store, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    argv = ["sh", "-c", f"echo $$ $PPID > {ready}.new; mv {ready}.new {ready}; exec sleep 60"]
    with subprocess.Popen(program_command(store.root, argv), stdout=subprocess.PIPE, text=True) as program:
        pid, supervisor = map(int, wait_for(ready).split())
        os.kill(supervisor, signal.SIGKILL)
        out, _ = program.communicate(timeout=60)
    wait_until_ended(pid)
    assert json.loads(out)["error"] == "Session"


def wait_until_nobody_owns(store: Store) -> None:
    for _ in range(1200):
        if not any(found.owned for found in store.mounts()):
            return
        time.sleep(0.05)
    raise AssertionError("the view still has an owner")
