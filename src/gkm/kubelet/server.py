"""A gRPC server on a unix socket that kubelet, or nobody, may have touched.

* A socket left behind by a dead process is removed, one on which somebody answers is not taken over; of two that
  begin at the same moment one is refused.
* It appears by one rename, once calls are answered: kubelet asks a registration socket as soon as it sees it, and
  looks at no name that begins with a dot (k8s.io/kubernetes pkg/kubelet/pluginmanager/pluginwatcher).
* Nothing but us makes a deleted socket anew: `keep` looks at the inode from time to time and serves again.
* Only root may connect.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import socket
import stat
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NoReturn

import grpc.aio

from gkm.kubelet.errors import SocketError, SocketInUseError
from gkm.kubelet.service import Service

_LONGEST_PATH = 107
"""Bytes of `sockaddr_un.sun_path` less its terminating zero (unix(7))."""
_PROBE_SECONDS = 2.0
_LOCKED_SECONDS = 0.02
"""Between two looks whether another has begun; that takes it some milliseconds."""

_log = logging.getLogger(__name__)


class SocketServer:
    """Serves `services` at `path` between `start` and `stop`.

    `concurrent` bounds the calls in flight: what comes on top is answered RESOURCE_EXHAUSTED at once.
    """

    def __init__(self, path: Path, services: Sequence[Service], *, concurrent: int = 64) -> None:
        self._path = path
        self._services = tuple(services)
        self._concurrent = concurrent
        self._server: grpc.aio.Server | None = None
        self._inode: tuple[int, int] | None = None

    @property
    def path(self) -> Path:
        """The socket."""
        return self._path

    @property
    def _hidden(self) -> Path:
        return self._path.with_name(f".{self._path.name}")

    async def start(self) -> None:
        """Bind and accept; the parent directory is made. Calls are answered when this returns.

        Raises:
            SocketInUseError: another process answers there.
            SocketError: the path is too long, is no socket, or cannot be bound.
        """
        if len(os.fsencode(self._hidden)) > _LONGEST_PATH:
            raise SocketError(
                f"{self._path} is longer than the {_LONGEST_PATH - 1} bytes that a socket's path may have here:"
                " use a shorter kubelet root directory"
            )
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
            # Without it one could put the other's socket in its place, take it for its own, and be unreachable.
            async with _alone_in(self._path.parent):
                for path in (self._path, self._hidden):
                    await asyncio.to_thread(remove_stale_socket, path)
                await self._bind()
        except (OSError, RuntimeError) as error:
            raise SocketError(f"cannot serve {self._path}: {error}") from error

    async def _bind(self) -> None:
        server = grpc.aio.server(maximum_concurrent_rpcs=self._concurrent)
        server.add_generic_rpc_handlers([service.handlers() for service in self._services])
        server.add_insecure_port(f"unix:{self._hidden}")
        self._hidden.chmod(0o600)
        await server.start()
        self._server, self._inode = server, _inode(self._hidden)
        # gRPC unlinks the name it bound when it stops, whosever socket that is by then: it keeps the other name.
        self._hidden.rename(self._path)

    async def stop(self, grace: float = 5.0) -> None:
        """Take no new calls, give those in flight `grace` seconds, and remove the socket if it is ours."""
        server, self._server = self._server, None
        if server is None:
            return
        # First: once nobody answers here any more, another may put its own in this place.
        if self._inode is not None and _inode(self._path) == self._inode:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
        await server.stop(grace)

    def is_in_place(self) -> bool:
        """Whether the socket at the path is the one that is served."""
        return self._server is not None and _inode(self._path) == self._inode

    async def keep(self, every: float = 10.0) -> NoReturn:
        """Until cancelled, look every `every` seconds whether the socket is in place, and serve again if not."""
        while True:
            await asyncio.sleep(every)
            if self.is_in_place():
                continue
            _log.warning("%s was removed or replaced: serving it again", self._path)
            await self.stop()
            try:
                await self.start()
            except SocketError as error:
                _log.error("%s", error)


def remove_stale_socket(path: Path) -> None:
    """Remove the socket at `path` if nobody answers there; a path that is free is no error.

    Raises:
        SocketInUseError: somebody answers.
        SocketError: something else than a socket stands there.
        OSError: it cannot be removed.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketError(f"{path} is not a socket: remove it")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(os.fspath(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except TimeoutError:
            pass  # its backlog is full: somebody is there, and slow
    raise SocketInUseError(f"another process serves {path}: stop it first")


@contextlib.asynccontextmanager
async def _alone_in(directory: Path) -> AsyncIterator[None]:
    """Wait until no other process begins to serve a socket in `directory`. Raises `OSError`."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            await asyncio.sleep(_LOCKED_SECONDS)
        yield
    finally:
        os.close(fd)


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
