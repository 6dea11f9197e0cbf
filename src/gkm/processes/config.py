"""The install-wide configuration: the ConfigMap ``gkm-config``, mounted as a directory with a file per key.

Read once, when a process starts (`kubectl rollout restart` after a change). A key that is unknown, or a value
that cannot be read, ends the process with its name: a typing error must not pass for a default. The ConfigMap
that is installed and its reference are made from this struct, docstrings included.
"""

import difflib
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from gkm.base.errors import UsageError
from gkm.trust.gate import Default

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_QUANTITY = re.compile(r"([0-9]{1,18})(|[kMGT]|[KMGT]i)")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_PREFIX = "gkm."


class ConfigError(UsageError):
    """gkm-config cannot be used; the message names the key and what to write."""


class LogLevel(StrEnum):
    """How much a process tells."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    DEBUG = "debug"
    TRACE = "trace"


class Bytes(int):
    """A size, read from a whole number with a unit of Kubernetes: ``2Gi``, ``500M``."""

    @classmethod
    def parse(cls, text: str) -> "Bytes":
        """Raises ValueError for text that is no such size, and for none at all."""
        found = _QUANTITY.fullmatch(text)
        if found is None or int(found[1]) == 0:
            raise ValueError(
                f"{text!r} is no size: write a whole number above 0 with a unit, as in 2Gi or 500M"
            )
        return cls(int(found[1]) * _UNITS[found[2]])


class Hosts(frozenset[str]):
    """Registries as ``HOST[:PORT]``, read from a list with commas."""

    @classmethod
    def parse(cls, text: str) -> "Hosts":
        """Raises ValueError for text that names something else."""
        hosts = [host.strip() for host in text.split(",") if host.strip()]
        for host in hosts:
            if not _HOST.fullmatch(host):
                raise ValueError(f"{host!r} is no registry: write HOST or HOST:PORT, separated by commas")
        return cls(hosts)


def _key(field: str) -> str:
    return _PREFIX + field.replace("_", ".")


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=_key):
    """What can be set for all of GKM, by key of ``gkm-config``; values are text, as ConfigMaps have it."""

    operator_log_level: LogLevel = LogLevel.INFO
    """How much the operator logs: `error`, `warning`, `info`, `debug` or `trace`."""
    agent_log_level: LogLevel = LogLevel.INFO
    """How much agents log."""
    extract_log_level: LogLevel = LogLevel.INFO
    """How much gkm-extract logs."""
    agent_image: str = ""
    """Known from the Go operator and read by nothing: the agent's image stands in its DaemonSet."""
    extract_image: str = ""
    """Known from the Go operator and read by nothing: gkm-extract is part of the agent's image."""
    nogpu: bool = False
    """`true`: caches are not checked against GPUs, and every node takes them. With `gkm.simulated.gpus` set, they
    are checked against those."""
    kindcluster: bool = False
    """`true` on KIND, where GKM makes volumes for PVC deliveries itself. CSI delivery needs no such thing."""
    kyverno_enabled: bool = False
    """`true` where Kyverno policies check signatures; known from the Go operator, not used yet."""
    trust_default: Default = Default.WARN
    """What holds for images that no trust policy names: `Warn` grants them and says that nothing verified them,
    `Enforce` refuses them."""
    simulated_gpus: str = ""
    """GPUs that nodes are taken to have, in place of their own: `8xH100`, `2xMI300X,1xT4`, or `none`. Empty: each
    node's own."""
    registry_plain_http: Hosts = Hosts()
    """Registries that are spoken to in plain HTTP: `HOST` or `HOST:PORT`, separated by commas. Only for registries
    on a network that nobody else reaches."""
    registry_ca: str = ""
    """Certificates (PEM) of authorities that registries may be signed by, beside the well-known ones."""
    kubelet_root: str = "/var/lib/kubelet"
    """Kubelet's root directory (`--root-dir`). The agent's DaemonSet mounts it at the same path: change both."""
    pod_write_limit: Bytes = Bytes.parse("2Gi")
    """How much one pod may add to its mount, where its cache says nothing else. Beyond it the pod, and it alone,
    gets ENOSPC."""
    node_write_budget: Bytes = Bytes.parse("20Gi")
    """How much all pods of a node may add together; the limits of mounts are made smaller to fit."""
    node_disk_limit: Bytes | None = None
    """How much all sealed trees of a node may take together. Unset: as much as `gkm.node.disk.free` leaves."""
    node_disk_free: int = 20
    """How many percent of the disk staging leaves free. Keep it above kubelet's eviction thresholds (15 for
    images, 10 for pods)."""
    staging_parallel: int = 2
    """How many digests one node stages at the same time."""

    def __post_init__(self) -> None:
        if not 0 <= self.node_disk_free <= 99:
            raise ValueError(
                f"{_key('node_disk_free')} is a percentage from 0 to 99, not {self.node_disk_free}"
            )
        if not 1 <= self.staging_parallel <= 64:
            raise ValueError(f"{_key('staging_parallel')} is from 1 to 64, not {self.staging_parallel}")
        if not self.kubelet_root.startswith("/"):
            raise ValueError(f"{_key('kubelet_root')} is an absolute path, not {self.kubelet_root!r}")


def parse_config(values: Mapping[str, str]) -> Config:
    """The configuration in the data of a ConfigMap; an empty or blank value counts as unset.

    Raises:
        ConfigError: a key is unknown, or its value cannot be read.
    """
    known = [field.encode_name for field in msgspec.structs.fields(Config)]
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            meant = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise ConfigError(f"gkm-config has a key {key}, which nothing reads: {meant}")
    given = {key: value.strip() for key, value in values.items() if value.strip()}
    try:
        return msgspec.convert(given, Config, strict=False, dec_hook=_decode)
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"gkm-config cannot be used: {error}") from error


def read_config(directory: Path) -> Config:
    """The configuration in `directory`, where Kubernetes mounted ``gkm-config``.

    Raises:
        ConfigError: it is not there, or cannot be used.
    """
    try:
        # Names that begin with dots are the links by which Kubernetes swaps all files at once.
        paths = [path for path in directory.iterdir() if not path.name.startswith(".")]
        values = {path.name: path.read_text(encoding="utf-8") for path in paths}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{directory}: {error}; mount the ConfigMap gkm-config there") from error
    return parse_config(values)


def _decode(kind: type, value: Any) -> Any:  # noqa: ANN401  msgspec's signature
    if kind in (Bytes, Hosts):
        return kind.parse(value)
    raise NotImplementedError(kind)
