"""Build each program once per machine, into a cache folder outside the tree.

``$GKM_DEVCLUSTER_CACHE`` (default ``${XDG_CACHE_HOME:-~/.cache}/gkm/devcluster``) holds one folder per
module, named by a digest over go.mod, go.sum, sources, flags and the Go toolchain: a folder's programs never
change. A program appears by one rename; a lock per folder keeps two builders from doing the same work.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from devcluster.errors import BuildError, MissingPartError
from devcluster.parts import GO_MINOR, GO_PINNED, Module, Program

BUILD_TIMEOUT = 3600  # seconds for one program; kube-apiserver takes about 260 on two cores
_FLAGS = "-trimpath -mod=readonly -buildvcs=false"


def cache_folder() -> Path:
    """The folder of all built programs."""
    if folder := os.environ.get("GKM_DEVCLUSTER_CACHE"):
        return Path(folder).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "gkm" / "devcluster"


def go_environment() -> dict[str, str]:
    """The environment every build runs in: the right Go toolchain, nothing of the caller's flags.

    Raises `MissingPartError` where no Go client can be found.
    """
    if shutil.which("go") is None:
        raise MissingPartError(
            f"devcluster builds Kubernetes with Go {GO_MINOR}, and there is no `go` in PATH: "
            "install it from https://go.dev/dl/"
        )
    environment = {k: v for k, v in os.environ.items() if k not in ("GOFLAGS", "GOOS", "GOARCH", "GOWORK")}
    environment |= {"GOFLAGS": _FLAGS, "GOWORK": "off", "GOTOOLCHAIN": "local"}
    if not _go_version(environment).startswith(f"go{GO_MINOR}"):
        # A Go client of another minor fetches the pinned toolchain as a module, once.
        environment["GOTOOLCHAIN"] = GO_PINNED
    return environment


def _go_version(environment: Mapping[str, str]) -> str:
    got = subprocess.run(
        ["go", "env", "GOVERSION"], env=environment, capture_output=True, text=True, check=False
    )
    if got.returncode != 0:
        raise MissingPartError(
            f"the Go client in PATH cannot provide {GO_PINNED}: {got.stderr.strip()}; "
            f"install Go {GO_MINOR} from https://go.dev/dl/"
        )
    return got.stdout.strip()


def module_folder(module: Module, go_version: str) -> Path:
    """Where `module`'s programs lie when built with `go_version` (``go env GOVERSION``)."""
    digest = hashlib.sha256()
    for file in sorted(module.folder.iterdir()):
        digest.update(f"{file.name}\0".encode())
        digest.update(file.read_bytes())
    for fact in (go_version, platform.machine(), _FLAGS, module.ldflags, module.tags, str(module.cgo)):
        digest.update(f"\0{fact}".encode())
    return cache_folder() / f"{module.name}-{digest.hexdigest()[:16]}"


def locate(programs: Sequence[Program]) -> dict[str, Path]:
    """The path of each program, built or not."""
    version = _go_version(go_environment())
    return {p.name: module_folder(p.module, version) / p.name for p in programs}


def ensure(programs: Sequence[Program], say: Callable[[str], None]) -> dict[str, Path]:
    """Build what is not in the cache; returns the path of each program by name.

    Raises `MissingPartError` without a Go client, `BuildError` where a program does not compile.
    """
    paths = locate(programs)
    todo = [p for p in programs if not paths[p.name].exists()]
    if todo:
        names = ", ".join(p.name for p in todo)
        say(f"building {names} from source, once per machine (cold, all of it takes 10 minutes on two cores)")
    environment = go_environment() if todo else {}
    for program in todo:
        target = paths[program.name]
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.parent.with_suffix(".lock")):
            for stale in target.parent.glob(f".{target.name}.*"):  # of a build that was killed
                stale.unlink()
            if not target.exists():
                say(f"  {program.name}")
                _build(program, target, environment)
    return paths


def _build(program: Program, target: Path, environment: Mapping[str, str]) -> None:
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    module = program.module
    command = ["go", "build", "-o", str(temporary), "-ldflags", module.ldflags]
    command += ["-tags", module.tags] if module.tags else []
    try:
        got = subprocess.run(
            ["nice", "-n", "10", *command, program.package],
            cwd=module.folder,
            env={**environment, "CGO_ENABLED": "1" if module.cgo else "0"},
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT,
            check=False,
        )
        if got.returncode != 0:
            raise BuildError(f"{program.name} did not build:\n{_last_words(got.stderr)}")
        temporary.rename(target)
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{program.name} did not build within {BUILD_TIMEOUT} s") from error
    finally:
        temporary.unlink(missing_ok=True)


def _last_words(text: str) -> str:
    lines = [line for line in text.splitlines() if not re.match(r"go: downloading ", line)]
    return "\n".join(lines[-20:])


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path`; the file stays, as an unlink would let two holders in."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
