"""Other users: any uid writes in a view that root mounted; an ordinary user mounts without root."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gkm.store.mode import Mode
from gkm.store.prepare import prepared_mount
from gkm.store.session import run_in_view
from gkm.store.store import Store
from support.parts import need_program
from support.users import OrdinaryUser
from support.views import PROGRAM, everything, program_arguments, program_command, seal_files, triton_files

SEAL_PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from gkm.store.store import Store
from support.views import seal_files, triton_files
print(seal_files(Store.open(Path(sys.argv[1])), triton_files("add")).digest)
"""
TESTS = str(PROGRAM.parents[1])
ENTRY = "ADD" + "A" * 49


def answer(user: OrdinaryUser, store: Path, script: str, **more: object) -> dict:
    done = user.run(user.python(PROGRAM, *program_arguments(store, ["sh", "-c", script], **more)))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def sealed(user: OrdinaryUser, store: Path) -> str:
    """Seal a small Triton cache in the user's own store; returns its digest."""
    program = user.home / "seal.py"
    program.write_text(SEAL_PROGRAM)
    done = user.run(user.python(program, str(store), TESTS))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.root
def test_any_uid_writes_in_its_view_and_never_in_the_sealed_tree(store: Store) -> None:
    need_program("setpriv", "util-linux")
    tree = seal_files(store, triton_files("add"))
    before = everything(tree.path)
    become = ["setpriv", "--reuid=123456", "--regid=54321", "--clear-groups", "--"]
    with prepared_mount(store, tree) as prepared:
        view = prepared.target
        script = f"cd {view} && echo a > top && mkdir -p new/dir && echo b > new/dir/c && echo d > {ENTRY}/add.cubin"
        result = run_in_view(prepared, [*become, "sh", "-c", script], dict(os.environ))
        added = everything(prepared.upper)
        owner = (prepared.upper / "top").stat().st_uid
        reached = run_in_user_shell(become, f"cat {prepared.upper}/top || cat {tree.path}/{ENTRY}/add.json")
    assert result.exit_status == 0
    assert added == {"top": b"a\n", "new/dir/c": b"b\n", f"{ENTRY}/add.cubin": b"d\n"}
    assert owner == 123_456
    assert reached == b"", "what the store holds is out of reach but through a view"
    assert everything(tree.path) == before


def run_in_user_shell(become: list[str], script: str) -> bytes:
    return subprocess.run([*become, "sh", "-c", script], capture_output=True, check=False).stdout


@pytest.mark.root
def test_an_ordinary_user_gets_an_overlay_with_relocated_paths(user: OrdinaryUser) -> None:
    store = user.home / "store"
    digest = sealed(user, store)
    script = f"id -u > VIEW/uid; id -g > VIEW/gid; cat VIEW/{ENTRY}/__grp__add.json; echo x > VIEW/{ENTRY}/add.cubin"
    result = answer(user, store, f"({script}) > VIEW/out", digest=digest)
    assert result["exit"] == 0
    assert result["mode"] == "user-overlay"
    assert f"{result['view']}/{ENTRY}/add.cubin" in result["upper"]["out"]
    assert result["upper"][f"{ENTRY}/add.cubin"] == "x\n"
    assert (result["upper"]["uid"], result["upper"]["gid"]) == (f"{user.uid}\n", f"{user.gid}\n")
    assert result["opened"] == [f"{ENTRY}/add.cubin"]
    assert result["kind"] == "complete"
    assert left_behind(store) == []


@pytest.mark.root
def test_the_command_of_an_ordinary_user_has_no_capabilities_left(user: OrdinaryUser) -> None:
    script = "grep Cap /proc/self/status > VIEW/caps; umount VIEW && echo gone > VIEW/umounted; true"
    result = answer(user, user.home / "store", script)
    sets = dict(line.split(":\t") for line in result["upper"]["caps"].splitlines())
    assert {name: int(value, 16) for name, value in sets.items()} == dict.fromkeys(sets, 0)
    assert "umounted" not in result["upper"]


@pytest.mark.root
def test_a_directory_that_hands_its_group_down_does_not_break_the_first_write(user: OrdinaryUser) -> None:
    """Overlay fails with EOVERFLOW where a layer's group is not mapped into the namespace."""
    shared = user.home / "shared"
    shared.mkdir()
    os.chown(shared, user.uid, 54_321)
    shared.chmod(0o2777)
    digest = sealed(user, shared / "store")
    result = answer(user, shared / "store", f"echo y >> VIEW/{ENTRY}/add.cubin", digest=digest)
    assert result["exit"] == 0
    assert result["mode"] == "user-overlay"
    assert result["upper"] == {f"{ENTRY}/add.cubin": "code of addy\n"}


@pytest.mark.root
def test_where_namespaces_are_refused_a_copy_serves_and_says_why(store: Store) -> None:
    """No capabilities and a limit of zero user namespaces, as hardened hosts and some containers have it."""
    tree = seal_files(store, triton_files("add"))
    command = program_command(store.root, ["grep", "-q", "x", f"VIEW/{ENTRY}/add.cubin"], digest=tree.digest)
    harden = 'echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-all -- "$@"'
    result = json.loads(in_user_namespace(harden, command))
    assert result["mode"] == Mode.COPY
    assert result["opened"] == [f"{ENTRY}/add.cubin"]
    probe = [sys.executable, "-P", "-m", "gkm.store.probe"]
    with store.scratch() as scratch:
        _, refusals = json.loads(in_user_namespace(harden, [*probe, str(scratch)]))
    assert [refusal.split(":")[0] for refusal in refusals] == ["overlay", "user-overlay"]


@pytest.mark.root
def test_root_of_a_rootless_container_uses_the_overlay_of_users(store: Store) -> None:
    tree = seal_files(store, triton_files("add"))
    script = f"cd VIEW && rm -r {ENTRY} && mkdir {ENTRY} && ls {ENTRY} | wc -l && echo x > {ENTRY}/y"
    command = program_command(store.root, ["sh", "-c", script], digest=tree.digest)
    files, result = in_user_namespace('exec "$@"', command).splitlines()
    assert files == "0"
    assert json.loads(result)["mode"] == Mode.USER_OVERLAY
    assert json.loads(result)["upper"] == {f"{ENTRY}/y": "x\n"}


def in_user_namespace(script: str, command: list[str]) -> str:
    """Run `command` through `script` as root of a user namespace; returns its standard output."""
    argv = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", *command]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.root
def test_directories_that_even_their_owner_may_not_enter_are_deleted(user: OrdinaryUser) -> None:
    store = user.home / "store"
    for mode in ("user-overlay", "copy"):
        script = "mkdir -p VIEW/shut/in && touch VIEW/shut/in/file && chmod 0 VIEW/shut/in VIEW/shut"
        assert answer(user, store, script, mode=mode)["exit"] == 0
        assert left_behind(store) == []


@pytest.mark.root
def test_a_store_of_somebody_else_is_refused_with_the_reason(user: OrdinaryUser, store: Store) -> None:
    done = user.run(user.python(PROGRAM, *program_arguments(store.root, ["true"])))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["error"] == "Store"
    assert "--store" in said["message"]


def left_behind(store: Path) -> list[str]:
    parts = ("staging", "mounts", "trash")
    return [p.name for part in parts for p in (store / part).iterdir() if p.name != ".lock"]
