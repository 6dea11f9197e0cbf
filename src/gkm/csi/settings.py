"""What the driver is told at start, read from ``gkm-config`` by the agent's main."""

from dataclasses import dataclass
from pathlib import Path

from gkm.api.names import CSI_DRIVER

_SELINUX = Path("/sys/fs/selinux/enforce")
_CONTAINER_LABEL = "system_u:object_r:container_file_t:s0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All sizes in bytes, all times in seconds."""

    node_name: str
    kubelet_root: Path = Path("/var/lib/kubelet")
    """Kubelet's ``--root-dir``, mounted at the same path here (k3s, k0s and microk8s have another)."""
    write_limit_bytes: int = 2 << 30
    """What one pod may add to its mount, unless its cache says otherwise."""
    write_budget_bytes: int = 20 << 30
    """What all pods of the node may add together."""
    missing_wait_seconds: float = 30.0
    """How long pods wait for a cache of which the node knows nothing (yet)."""
    call_seconds: float = 20.0
    """How long one call is held; kubelet gives up at 120 and calls the same volume's pods one by one."""
    waiting_calls: int = 32
    """How many calls may wait at once; the others are told at once to come again."""
    busy_seconds: float = 600.0
    """How long unmounting is tried before the mount is left to the process that keeps it."""

    @property
    def plugin_directory(self) -> Path:
        """Only below this and at targets do mounts survive the agent's restart in view of the host."""
        return self.kubelet_root / "plugins" / CSI_DRIVER

    @property
    def socket(self) -> Path:
        """Where the driver answers."""
        return self.plugin_directory / "csi.sock"

    @property
    def place(self) -> Path:
        """Where uppers lie (`gkm.store.host`)."""
        return self.plugin_directory / "views"


def selinux_context() -> str | None:
    """The label for mounts where SELinux is on: without it the runtime relabels, which copies every file up."""
    return _CONTAINER_LABEL if _SELINUX.exists() else None
