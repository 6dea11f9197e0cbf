"""What the agent and gkm-extract say to each other: one request on stdin, lines of JSON on stdout.

Credentials travel in the request alone: arguments and environment of a process are there for others to read.
"""

from typing import TypeAlias

import msgspec

from gkm.base.errors import GKMError


class ExtractRequest(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Stage one digest into a store of the child's own."""

    directory: str
    """Where that store is to be made: an absolute path that the child may write to."""
    image: str
    """``HOST/REPO@sha256:DIGEST``."""
    auth: str | None = None
    """The text of a ``.dockerconfigjson``; None: anonymous."""
    ca: str | None = None
    """A PEM file of authorities to trust beside the system's own."""
    plain_http: bool = False
    """Whether the registry is spoken to in plain HTTP."""
    limit_bytes: int | None = None
    """The most bytes that the unpacked image may have; None: the general limit."""
    roots: tuple[str, ...] = ()
    """Paths at which the tree will be seen at once: its relocation layers are made with it."""


class RelocateRequest(msgspec.Struct, frozen=True, rename="camel"):
    """Make the relocation layer of the tree that the child was started for."""

    directory: str
    """Where it is to be made: an absolute path that does not exist, in a directory that the child may write to."""
    root: str
    """The absolute path at which the tree will be seen."""
    limit_bytes: int
    """The most bytes that the layer may have."""


class Moved(msgspec.Struct, frozen=True, tag="moved", tag_field="event"):
    """A sign of life: so many of so many bytes were fetched."""

    bytes: int
    total: int


class Staged(msgspec.Struct, frozen=True, tag="staged", tag_field="event"):
    """The tree is sealed in the child's store."""

    digest: str
    bytes: int
    files: int


class Relocated(msgspec.Struct, frozen=True, tag="relocated", tag_field="event"):
    """The layer is made."""

    files: int
    bytes: int


class Failed(msgspec.Struct, frozen=True, tag="failed", tag_field="event"):
    """Nothing was staged, or made."""

    reason: str
    """The error's stable word."""
    message: str


ExtractEvent: TypeAlias = Moved | Staged | Relocated | Failed

REASON_LENGTH = 128
MESSAGE_LENGTH = 4096
LINE_LENGTH = 64 << 10
"""The longest line that the agent reads."""


_DECODER: msgspec.json.Decoder[ExtractEvent] = msgspec.json.Decoder(Moved | Staged | Relocated | Failed)


def failure(error: GKMError) -> Failed:
    """`error` as the agent is told of it."""
    return Failed(error.reason, str(error)[:MESSAGE_LENGTH])


def line(event: ExtractEvent) -> bytes:
    """`event` as one line."""
    return msgspec.json.encode(event) + b"\n"


def read_event(data: bytes) -> ExtractEvent:
    """The event in one line. Raises `msgspec.DecodeError`."""
    return _DECODER.decode(data)
