"""Free TCP ports on loopback, for several clusters on one machine."""

import random
import socket

from gkm.base.errors import GKMError

# Below Linux' range for outgoing connections (ip_local_port_range, 32768 and up): a port found free here is
# not taken by somebody's connection before its server starts.
_RANGE = range(20000, 30000)


class NoFreePortError(GKMError):
    """A thousand ports in a row were taken."""


def free(count: int) -> list[int]:
    """`count` different ports on which nobody listens. Raises `NoFreePortError`."""
    found: list[int] = []
    for port in random.sample(_RANGE, 1000):
        if len(found) == count:
            return found
        with socket.socket() as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                attempt.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    raise NoFreePortError(f"found no {count} free ports in {_RANGE.start}-{_RANGE.stop}")
