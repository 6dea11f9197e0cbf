"""What a child can still do once it is confined: asked of the kernel, from inside."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gkm.agent.confinement import Identity
from support import confined_program

pytestmark = pytest.mark.root
REFUSED = "Operation not permitted"


def look(identity: Identity, secret: Path, *, reading: bool = False, parent: int | None = None) -> Any:
    numbers = [parent or os.getpid(), identity.uid, identity.gid, int(reading)]
    done = subprocess.run(
        [sys.executable, "-P", confined_program.__file__, *map(str, numbers), secret],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def secret(open_path: Path) -> Path:
    path = open_path / "secret"
    path.write_bytes(b"root's")
    path.chmod(0o600)
    return path


def test_a_child_has_nothing_left_but_threads_and_the_network(child: Identity, secret: Path) -> None:
    told = look(child, secret)
    assert told["ids"] == [child.uid, child.uid, child.gid, child.gid, []]
    assert [told[k] for k in ("effective", "permitted", "inheritable", "bounding")] == [0, 0, 0, 0]
    assert told["no_new_privs"] == "1"
    assert told["core"] == [0, 0]
    assert told["read secret"] == told["own memory"] == "Permission denied"
    assert told["root"] == REFUSED
    assert told["thread"] == told["socket"] == "ok"
    assert told["filtered"], "this machine's processor has no filter table"
    for forbidden in ("fork", "execute", "mount", "unshare", "trace"):
        assert told[forbidden] == REFUSED, forbidden


def test_a_counting_child_reads_what_only_a_pod_may_and_nothing_more(child: Identity, secret: Path) -> None:
    told = look(child, secret, reading=True)
    assert told["effective"] == told["permitted"] == 1 << 2
    assert told["inheritable"] == told["bounding"] == 0
    assert told["read secret"] == "ok"
    assert told["write secret"] == "Permission denied"
    assert told["socket"] == told["fork"] == told["execute"] == REFUSED


def test_a_child_that_kept_its_privileges_refuses_to_work(secret: Path) -> None:
    with pytest.raises(AssertionError, match="must not hold capabilities"):
        look(Identity(0, 0), secret)


def test_a_child_whose_agent_is_gone_refuses_to_work(child: Identity, secret: Path) -> None:
    with pytest.raises(AssertionError, match="is gone"):
        look(child, secret, parent=1)
