"""The CSI Identity service (CSI spec, "Identity Service RPC"): who answers, and whether it is ready."""

from collections.abc import Callable

from google.protobuf.wrappers_pb2 import BoolValue

from gkm import __version__
from gkm.api.names import CSI_DRIVER
from gkm.kubelet.protos import csi_pb2 as wire
from gkm.kubelet.service import Method, Service


class IdentityService:
    """Answers for the driver; `ready` says whether it can publish."""

    def __init__(self, ready: Callable[[], bool]) -> None:
        self._ready = ready

    @property
    def service(self) -> Service:
        """The gRPC service."""
        return Service(
            "csi.v1.Identity",
            {
                "GetPluginInfo": Method(wire.GetPluginInfoRequest, self._info),
                "GetPluginCapabilities": Method(wire.GetPluginCapabilitiesRequest, self._capabilities),
                "Probe": Method(wire.ProbeRequest, self._probe),
            },
        )

    async def _info(self, _: wire.GetPluginInfoRequest) -> wire.GetPluginInfoResponse:
        return wire.GetPluginInfoResponse(name=CSI_DRIVER, vendor_version=__version__)

    async def _capabilities(self, _: wire.GetPluginCapabilitiesRequest) -> wire.GetPluginCapabilitiesResponse:
        return wire.GetPluginCapabilitiesResponse()

    async def _probe(self, _: wire.ProbeRequest) -> wire.ProbeResponse:
        return wire.ProbeResponse(ready=BoolValue(value=self._ready()))
