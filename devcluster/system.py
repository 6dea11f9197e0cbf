"""What the machine itself must have, how to see whether it does, and how to get it."""

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster import binaries, parts
from devcluster.errors import MissingPartError

CNI_PLUGINS = Path("/usr/lib/cni")
BUSYBOX = Path("/bin/busybox")
_PLUGINS = ("ptp", "host-local", "portmap", "loopback")


@dataclass(frozen=True)
class Need:
    """One thing the machine must have: how to check it, and the Debian packages that bring it."""

    what: str
    there: Callable[[], bool]
    package: str = ""
    remedy: str = ""


def _program(name: str, package: str) -> Need:
    return Need(f"the program {name}", lambda: shutil.which(name) is not None, package)


def _static_busybox() -> bool:
    # A dynamic program names its loader within the first page (ELF, PT_INTERP).
    return BUSYBOX.is_file() and b"/ld-linux" not in BUSYBOX.read_bytes()[:4096]


def _runc_can_be_built() -> bool:
    if all(
        path.exists() for path in binaries.locate([p for p in parts.NODE if p.module is parts.RUNC]).values()
    ):
        return True
    probe = ["pkg-config", "--exists", "libseccomp"]
    return (
        all(shutil.which(p) for p in ("gcc", "pkg-config"))
        and subprocess.run(probe, check=False).returncode == 0
    )


def _go() -> bool:
    try:
        binaries.go_environment()
    except MissingPartError:
        return False
    return True


def _filesystem(name: str) -> bool:
    if any(line.split()[-1] == name for line in Path("/proc/filesystems").read_text().splitlines()):
        return True
    modprobe = shutil.which("modprobe")  # a module that nobody has used yet is not listed
    return modprobe is not None and subprocess.run([modprobe, "-q", name], check=False).returncode == 0


CONTROL_PLANE = (
    Need("Go", _go, remedy=f"devcluster builds Kubernetes with Go {parts.GO_MINOR}: https://go.dev/dl/"),
    _program("openssl", "openssl"),
)
NODES = (
    Need("root", lambda: os.geteuid() == 0, remedy="nodes mount and route: run as root, or use NODES=0"),
    _program("unshare", "util-linux"),
    _program("nsenter", "util-linux"),
    _program("ip", "iproute2"),
    _program("nft", "nftables"),
    _program("iptables", "iptables"),
    Need(
        f"the CNI plugins {', '.join(_PLUGINS)} in {CNI_PLUGINS}",
        lambda: all((CNI_PLUGINS / name).exists() for name in _PLUGINS),
        "containernetworking-plugins",
    ),
    Need(f"a static {BUSYBOX}", _static_busybox, "busybox-static"),
    Need(
        "gcc, pkg-config and libseccomp's headers",
        _runc_can_be_built,
        "gcc libc6-dev libseccomp-dev pkg-config",
    ),
    Need("overlayfs", lambda: _filesystem("overlay"), remedy="the Linux kernel needs CONFIG_OVERLAY_FS"),
)


def needs(nodes: int) -> tuple[Need, ...]:
    """What a cluster of that shape needs of the machine."""
    return CONTROL_PLANE + (NODES if nodes else ())


def require(nodes: int, say: Callable[[str], None]) -> None:
    """Install what is missing where that is possible (root on Debian), or raise `MissingPartError`."""
    missing = [need for need in needs(nodes) if not need.there()]
    packages = sorted({p for need in missing for p in need.package.split()})
    if packages and os.geteuid() == 0 and shutil.which("apt-get"):
        say(f"installing Debian packages: {' '.join(packages)}")
        _install(packages)
        missing = [need for need in missing if not need.there()]
    if missing:
        lines = [f"  {need.what}: {_remedy(need)}" for need in missing]
        raise MissingPartError("this machine lacks what a cluster of this shape needs:\n" + "\n".join(lines))


def report(nodes: int) -> list[tuple[str, str]]:
    """Per need: what, and `ok` or how to get it."""
    return [(need.what, "ok" if need.there() else _remedy(need)) for need in needs(nodes)]


def _remedy(need: Need) -> str:
    return need.remedy or f"install Debian's {need.package} (`make cluster-up` as root does)"


def _install(packages: Sequence[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]

    def apt(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)

    if apt(command).returncode == 0:
        return
    apt(["apt-get", "update"])  # the package lists of a fresh machine are empty or old
    got = apt(command)
    if got.returncode != 0:
        raise MissingPartError(f"`{' '.join(command)}` failed:\n{got.stderr.strip()}")
