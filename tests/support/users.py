"""Running something as an ordinary user, really: other ids, no capabilities, nothing of root's in reach."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.parts import REPOSITORY, need_program, need_root


@dataclass(frozen=True)
class OrdinaryUser:
    """A user without an account; `home` is a directory of theirs."""

    uid: int
    gid: int
    home: Path

    def command(self, *argv: str) -> list[str]:
        """The command line with which root runs `argv` as this user."""
        become = [
            "setpriv",
            f"--reuid={self.uid}",
            f"--regid={self.gid}",
            "--clear-groups",
            "--inh-caps=-all",
        ]
        return ["unshare", "--mount", "--", "sh", "-c", _script(), "sh", *become, "--", *argv]

    def python(self, script: Path, *argv: str) -> list[str]:
        """The command line that runs a Python `script` of this repository as this user."""
        return self.command(sys.executable, "-P", str(script), *argv)

    def environment(self, **more: str) -> Mapping[str, str]:
        """What such a user has after logging in, and `more`."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "TMPDIR": str(self.home), **more}

    def run(self, command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command line made by one of the above, in the home directory."""
        return subprocess.run(
            command,
            env=self.environment(**more),
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


@contextmanager
def ordinary_user(uid: int = 123_456, gid: int = 123_457) -> Iterator[OrdinaryUser]:
    """A user of these ids, for the length of a block. Needs root and setpriv."""
    need_root()
    need_program("setpriv", "util-linux")
    home = Path(tempfile.mkdtemp(prefix="gkm-user-", dir="/tmp"))
    try:
        os.chown(home, uid, gid)
        yield OrdinaryUser(uid, gid, home)
    finally:
        shutil.rmtree(home)


def _script() -> str:
    """A shell script that opens the way to the interpreter and the checkout, and executes its arguments.

    In the mount namespace it runs in, each directory on that way that others may not enter is covered by an
    open one that holds only what is needed: so both keep their paths.
    """
    lines = ["set -eu"]
    needed: dict[Path, list[Path]] = {}
    for path in {REPOSITORY, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}:
        closed = next((p for p in [*reversed(path.parents), path] if not p.stat().st_mode & 0o001), None)
        if closed is not None:
            needed.setdefault(closed, []).append(path)
    for closed, paths in sorted(needed.items()):
        fds = range(3, 3 + len(paths))
        lines += [f"exec {fd}<'{path}'" for fd, path in zip(fds, paths, strict=True)]
        lines.append(f"mount -t tmpfs -o mode=755 none '{closed}'")
        for fd, path in zip(fds, paths, strict=True):
            lines.append(f"mkdir -p '{path}'")
            lines.append(f"mount --no-canonicalize --bind /proc/self/fd/{fd} '{path}'")
            lines.append(f"exec {fd}<&-")
    return "\n".join([*lines, 'exec "$@"'])
