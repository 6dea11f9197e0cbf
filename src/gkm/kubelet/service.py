"""A gRPC service as a table of typed handlers, and what becomes of their exceptions.

There are no generated service stubs: they refuse a grpcio older than their generator, and carry no types.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf.message import Message

from gkm.kubelet.errors import CallError

_log = logging.getLogger(__name__)
_Request = TypeVar("_Request", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[_Request]):
    """One unary method: what it takes, and who answers."""

    request: type[_Request]
    handler: Callable[[_Request], Awaitable[Message]]
    """Raises `CallError` for a status other than OK. Cancelled when the caller hangs up or its deadline
    passes; it must let the cancellation through."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service by its full proto name (``csi.v1.Node``) and its methods by theirs."""

    name: str
    methods: Mapping[str, Method[Any]]

    def handlers(self) -> grpc.GenericRpcHandler:
        """For `grpc.aio.Server.add_generic_rpc_handlers`. A method that is not listed is UNIMPLEMENTED."""
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                _answering(f"{self.name}/{name}", method),
                request_deserializer=method.request.FromString,
                response_serializer=_serialize,
            )
            for name, method in self.methods.items()
        }
        return grpc.method_handlers_generic_handler(self.name, handlers)


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()


def _answering(name: str, method: Method[Any]) -> Callable[[Any, Any], Awaitable[Message]]:
    async def answer(request: Message, context: grpc.aio.ServicerContext[Any, Any]) -> Message:
        try:
            return await method.handler(request)
        except asyncio.CancelledError:
            # grpc.aio leaks the batch of a cancelled call whose handler swallows the cancellation.
            raise
        except CallError as error:
            code, text = error.code, str(error)
            _log.info("%s: %s: %s", name, code.name, text)
        except Exception as error:  # noqa: BLE001  logged, and kubelet is told
            # The request itself is not logged: fields marked csi_secret may be in it.
            code, text = grpc.StatusCode.INTERNAL, f"{type(error).__name__}; the agent's log says more"
            _log.exception("%s failed", name)
        await context.abort(code, text)
        raise AssertionError("abort always raises")

    return answer
