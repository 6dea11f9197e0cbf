"""The first process of a node: it builds the node's view of the machine, then keeps its daemons running.

Started in fresh mount, pid, network, ipc and uts namespaces (`devcluster.node`); all it mounts is private to
them, and everything ends with it. ``/`` is the host's, entry by entry, except that ``/run``, ``/var/lib`` and
``/var/log`` are the node's own: a DaemonSet's hostPaths name the same place on every node and are another
folder on each. Daemons that end are started again, as an init system would.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from devcluster import processes

_PRIVATE = ("proc", "sys", "dev", "run", "var")
_PRIVATE_VAR = ("lib", "log", "run")
# Kubelet sets these (pkg/kubelet/cm, setupKernelTunables) and they belong to the whole machine: the node
# gets files in their place, so that the host keeps its own values.
_SYSCTLS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)


class Daemon(msgspec.Struct, frozen=True):
    """A program that the node keeps running; `ready` is a unix socket to wait for before the next starts."""

    name: str
    argv: list[str]
    ready: str | None = None
    then: list[list[str]] = []  # commands to run once it is ready, the first time


class Plan(msgspec.Struct, frozen=True):
    """All that the first process must know (``init.json`` in the node's folder)."""

    hostname: str
    folder: str
    visible: list[str]  # paths that must be seen even if they lie below a private folder
    daemons: list[Daemon]
    address: str
    environment: dict[str, str]


def main() -> None:
    """Never returns while the node lives. The argument is the plan's path."""
    plan = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Plan)
    folder = Path(plan.folder)
    # /proc is still the host's, so this is our pid there.
    host_pid = int(Path("/proc/self").readlink().name)
    if identity := processes.Identity.of(host_pid):
        processes.record(identity, folder / "init.pid")
    socket.sethostname(plan.hostname)
    _enter_root(folder, plan.visible)
    _settle_kernel(folder)
    _wait_for_address(plan.address)
    _supervise(plan)


def _mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


def _enter_root(folder: Path, visible: list[str]) -> None:
    root = folder / "root"
    root.mkdir(exist_ok=True)
    _mount("-t", "tmpfs", "-o", "mode=755", "node", root)
    for parent, private in ((Path("/"), _PRIVATE), (Path("/var"), _PRIVATE_VAR)):
        (root / parent.relative_to("/")).mkdir(exist_ok=True)
        for entry in sorted(parent.iterdir()):
            if entry.name not in private:
                _mirror(entry, root)
    for name in ("lib", "log"):
        (folder / name).mkdir(exist_ok=True)
        (root / "var" / name).mkdir()
        _mount("--bind", folder / name, root / "var" / name)
    (root / "var/run").symlink_to("/run")
    for name in ("proc", "sys", "dev", "run"):
        (root / name).mkdir()
    _mount("-t", "proc", "proc", root / "proc")
    _mount("--rbind", "/dev", root / "dev")
    _mount("-t", "tmpfs", "-o", "mode=755,nosuid,nodev", "run", root / "run")
    _mount("-t", "sysfs", "sysfs", root / "sys")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        place = line.split()[4]
        if place.startswith("/sys/") and (root / place[1:]).is_dir():
            _mount("--bind", place, root / place[1:])
    shown: list[Path] = []
    for path in map(Path, visible):
        if path.parts[1] in ("var", "run") and not any(path.is_relative_to(other) for other in shown):
            target = root / path.relative_to("/")
            target.mkdir(parents=True, exist_ok=True)  # from before a reboot
            _mount("--rbind", path, target)
            shown.append(path)
    _pivot(root)


def _mirror(entry: Path, root: Path) -> None:
    """Show a host's file, folder or link at the same place below `root`."""
    target = root / entry.relative_to("/")
    if entry.is_symlink():
        target.symlink_to(entry.readlink())
    elif entry.is_dir():
        target.mkdir()
        _mount("--rbind", entry, target)
    elif entry.is_file():
        target.touch()
        _mount("--bind", entry, target)


def _pivot(root: Path) -> None:
    """Make `root` the root of this mount namespace, and shared below, as systemd leaves it on a real node."""
    os.chdir(root)
    libc = ctypes.CDLL(None, use_errno=True)
    # pivot_root(".", ".") stacks the old root on the new one: pivot_root(2), NOTES.
    if libc.pivot_root(b".", b".") != 0:
        raise OSError(ctypes.get_errno(), "pivot_root")
    subprocess.run(["umount", "--lazy", "."], check=True)
    os.chdir("/")
    _mount("--make-rshared", "/")


def _settle_kernel(folder: Path) -> None:
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    for name in _SYSCTLS:
        source, target = folder / "sysctls" / name, Path("/proc/sys") / name
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(target.read_text())
        _mount("--bind", source, target)


def _wait_for_address(address: str) -> None:
    """The host gives us our interface from outside; kubelet refuses an address that is not there."""
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((address, 0))
            except OSError:
                time.sleep(0.02)
            else:
                return


def _supervise(plan: Plan) -> None:
    running: dict[int, Daemon] = {}
    for daemon in plan.daemons:
        running[_start(plan, daemon)] = daemon
        _until_listening(daemon, running)
        for command in daemon.then:
            subprocess.run(command, check=True)
    # Container shims leave their orphans to us: reap everything, restart what is ours.
    while True:
        pid, status = os.waitpid(-1, 0)
        if ended := running.pop(pid, None):
            sys.stdout.write(f"{ended.name} ended with wait status {status}; starting it again\n")
            sys.stdout.flush()
            time.sleep(0.5)
            running[_start(plan, ended)] = ended


def _start(plan: Plan, daemon: Daemon) -> int:
    identity = processes.spawn(
        daemon.argv,
        log=Path(plan.folder) / f"{daemon.name}.log",
        environment=plan.environment,
        member=Path(os.environ[processes.MEMBER]),
    )
    return identity.pid


def _until_listening(daemon: Daemon, running: dict[int, Daemon]) -> None:
    while daemon.ready:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(daemon.ready)
            except OSError:
                time.sleep(0.05)
            else:
                return
        pid, status = os.waitpid(-1, os.WNOHANG)
        if running.pop(pid, None):
            sys.exit(f"{daemon.name} ended with wait status {status} before it listened on {daemon.ready}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    main()
