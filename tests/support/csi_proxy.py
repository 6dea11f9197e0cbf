"""What csi-sanity needs around a node-only driver: kubelet's part of a publish, and a controller in name.

It passes calls on unchanged but for what kubelet adds (the pod's name, in the volume context) and the last part
of target paths, which csi-sanity calls ``target`` and kubelet ``mount``.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from gkm.csi.ports import PodName
from gkm.kubelet.errors import CallError
from gkm.kubelet.protos import csi_pb2 as wire
from gkm.kubelet.server import SocketServer
from gkm.kubelet.service import Method, Service
from support.csi import Kubelet, dialled

CHECK_PATH = """#!/bin/sh
if [ -d "${1%/target}/mount" ]; then echo directory; else echo not_found; fi
"""
"""For ``-csi.checkpathcmd``: where a target path really is."""


@asynccontextmanager
async def proxied(
    driver: Path, socket: Path, pod: PodName, attributes: dict[str, str]
) -> AsyncIterator[None]:
    """Serve `driver` at `socket`, for volumes with `attributes` in `pod`."""
    async with dialled(driver) as kubelet:
        services = [_identity(kubelet), _node(kubelet, pod), _controller(attributes)]
        server = SocketServer(socket, services)
        await server.start()
        try:
            yield
        finally:
            await server.stop(0)


def _handing_on(
    kubelet: Kubelet, name: str, answer: Any, change: Callable[[Any], None] = lambda _: None
) -> Callable[[Any], Awaitable[Any]]:
    async def hand_on(request: Any) -> Any:
        change(request)
        try:
            return await kubelet.call(name, request, answer)
        except grpc.aio.AioRpcError as error:
            raise CallError(error.code(), error.details() or "") from error

    return hand_on


def _identity(kubelet: Kubelet) -> Service:
    async def capabilities(_: wire.GetPluginCapabilitiesRequest) -> wire.GetPluginCapabilitiesResponse:
        kind = wire.PluginCapability.Service
        return wire.GetPluginCapabilitiesResponse(
            capabilities=[wire.PluginCapability(service=kind(type=kind.CONTROLLER_SERVICE))]
        )

    own = "csi.v1.Identity"
    return Service(
        own,
        {
            "GetPluginCapabilities": Method(wire.GetPluginCapabilitiesRequest, capabilities),
            "GetPluginInfo": Method(
                wire.GetPluginInfoRequest,
                _handing_on(kubelet, f"{own}/GetPluginInfo", wire.GetPluginInfoResponse),
            ),
            "Probe": Method(wire.ProbeRequest, _handing_on(kubelet, f"{own}/Probe", wire.ProbeResponse)),
        },
    )


def _node(kubelet: Kubelet, pod: PodName) -> Service:
    def publish(request: wire.NodePublishVolumeRequest) -> None:
        for key, value in pod._asdict().items():
            request.volume_context[f"csi.storage.k8s.io/pod.{key}"] = value
        request.target_path = _mount(request.target_path)

    def unpublish(request: wire.NodeUnpublishVolumeRequest) -> None:
        request.target_path = _mount(request.target_path)

    def stats(request: wire.NodeGetVolumeStatsRequest) -> None:
        request.volume_path = _mount(request.volume_path)

    changes = {"NodePublishVolume": publish, "NodeUnpublishVolume": unpublish, "NodeGetVolumeStats": stats}
    names = ("NodeGetInfo", "NodeGetCapabilities", *changes)
    return Service(
        "csi.v1.Node",
        {
            name: Method(
                getattr(wire, f"{name}Request"),
                _handing_on(
                    kubelet, name, getattr(wire, f"{name}Response"), changes.get(name, lambda _: None)
                ),
            )
            for name in names
        },
    )


def _mount(path: str) -> str:
    return path.removesuffix("/target") + "/mount" if path.endswith("/target") else path


def _controller(attributes: dict[str, str]) -> Service:
    async def capabilities(_: Any) -> wire.ControllerGetCapabilitiesResponse:
        kind = wire.ControllerServiceCapability.RPC
        return wire.ControllerGetCapabilitiesResponse(
            capabilities=[wire.ControllerServiceCapability(rpc=kind(type=kind.CREATE_DELETE_VOLUME))]
        )

    async def create(request: wire.CreateVolumeRequest) -> wire.CreateVolumeResponse:
        volume = wire.Volume(volume_id=request.name, volume_context=attributes)
        return wire.CreateVolumeResponse(volume=volume)

    async def delete(_: Any) -> wire.DeleteVolumeResponse:
        return wire.DeleteVolumeResponse()

    return Service(
        "csi.v1.Controller",
        {
            "ControllerGetCapabilities": Method(wire.ControllerGetCapabilitiesRequest, capabilities),
            "CreateVolume": Method(wire.CreateVolumeRequest, create),
            "DeleteVolume": Method(wire.DeleteVolumeRequest, delete),
        },
    )
