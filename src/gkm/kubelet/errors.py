"""What can go wrong on kubelet's sockets."""

import grpc

from gkm.base.errors import GKMError


class SocketError(GKMError):
    """A unix socket cannot be served; the message says what stands in the way."""


class SocketInUseError(SocketError):
    """Another process answers on the socket: two plugins of one name would take each other's calls."""


class CallError(GKMError):
    """A call is answered with a gRPC status other than OK. `code` is what kubelet goes by."""

    reason = "CallRefused"

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
