"""What gkm-extract does to stage: everything is imported first, then the process is confined, then it reads."""

import asyncio
import gc
import importlib
import logging
import sys
from collections.abc import Callable

import msgspec

from gkm.agent.confinement import Identity, confine
from gkm.agent.extract import extract
from gkm.agent.messages import ExtractEvent, ExtractRequest, Failed, failure
from gkm.base.errors import GKMError
from gkm.images.connect import trust

# What the libraries below import only when they first use it. By then this process is confined, and where the
# interpreter lies may be closed to it.
_AHEAD = (
    "httpcore2",
    "concurrent.futures.thread",
    "anyio._backends._asyncio",
    "encodings.ascii",
    "encodings.idna",
)

_COLLECT_EVERY = 200_000
"""Objects."""

_log = logging.getLogger("gkm-extract")


def stage(parent: int, identity: Identity | None, tell: Callable[[ExtractEvent], None]) -> bool:
    """Stage what the request on stdin asks for; whether that worked. The last event told says how it ended."""
    for name in _AHEAD:
        importlib.import_module(name)
    trust(None)  # the system's authorities, parsed before anyone waits
    # What is made here is a tree's worth of records that stay to the end: looking through them for cycles again and
    # again finds none, and takes a tenth of the child's time.
    gc.freeze()
    gc.set_threshold(_COLLECT_EVERY)
    try:
        filtered = confine(parent=parent, identity=identity)
    except (GKMError, OSError) as error:
        tell(failure(error) if isinstance(error, GKMError) else Failed("NotConfined", str(error)))
        return False
    if not filtered:
        _log.warning("this machine has no system call filter: confined without one")
    try:
        request = msgspec.json.decode(sys.stdin.buffer.read(), type=ExtractRequest)
    except msgspec.DecodeError as error:
        tell(Failed("InvalidUsage", f"the request cannot be read: {error}"))
        return False
    return asyncio.run(extract(request, tell))
