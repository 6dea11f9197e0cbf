"""Announcing a plugin to kubelet (pluginregistration v1): kubelet watches a folder for sockets and asks them.

Serving it ourselves makes the node-driver-registrar sidecar needless, and survives kubelet's restarts: it
asks every socket in the folder again.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gkm.kubelet.protos import pluginregistration_pb2 as wire
from gkm.kubelet.service import Method, Service

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plugin:
    """What kubelet is told."""

    type: str
    """``CSIPlugin`` or ``DevicePlugin`` (k8s.io/kubelet pluginregistration/v1 constants.go)."""
    name: str
    """The driver's name, or the resource that a device plugin offers."""
    endpoint: Path
    """The socket on which the plugin itself answers. It must accept before the registration socket exists."""
    versions: Sequence[str]
    """Of the plugin's API; CSI drivers say ``1.0.0`` (pkg/volume/csi/csi_plugin.go, ValidatePlugin)."""


def registration_socket(kubelet_root: Path, name: str) -> Path:
    """The path at which kubelet looks for the registration of the plugin `name`."""
    return kubelet_root / "plugins_registry" / f"{name}-reg.sock"


class Registration:
    """Answers kubelet's questions about one plugin. `registered` is what kubelet said last."""

    def __init__(self, plugin: Plugin, changed: Callable[[bool], None] = lambda _: None) -> None:
        self._plugin = plugin
        self._changed = changed
        self.registered = False
        """Whether kubelet has taken the plugin up."""

    @property
    def service(self) -> Service:
        """The gRPC service."""
        return Service(
            "pluginregistration.Registration",
            {
                "GetInfo": Method(wire.InfoRequest, self._info),
                "NotifyRegistrationStatus": Method(wire.RegistrationStatus, self._status),
            },
        )

    async def _info(self, _: wire.InfoRequest) -> wire.PluginInfo:
        plugin = self._plugin
        return wire.PluginInfo(
            type=plugin.type,
            name=plugin.name,
            endpoint=str(plugin.endpoint),
            supported_versions=plugin.versions,
        )

    async def _status(self, status: wire.RegistrationStatus) -> wire.RegistrationStatusResponse:
        self.registered = status.plugin_registered
        if status.plugin_registered:
            _log.info("kubelet registered %s", self._plugin.name)
        else:
            _log.error("kubelet refused %s: %s", self._plugin.name, status.error)
        self._changed(self.registered)
        return wire.RegistrationStatusResponse()
