"""What the agent and its observer say to each other."""

from typing import Literal, TypeAlias

import msgspec


class Watch(msgspec.Struct, frozen=True, tag="watch", tag_field="do"):
    """Observe the view at `view` from now on; answered by a first `Sighting`."""

    id: int
    view: str
    tree: str
    """What is mounted there, by a name of the agent's choice."""
    wanted: tuple[str, ...] | None
    """The files of `tree` that matter, relative to the view: the payloads of the cache's entries. None: those named
    with the first view of the tree, if another one is watched still."""
    mounted: bool
    """Whether a filesystem of its own stands there."""


class Finish(msgspec.Struct, frozen=True, tag="finish", tag_field="do"):
    """Let go of a view; answered by a last `Sighting`."""

    id: int


Order: TypeAlias = Watch | Finish


class Sighting(msgspec.Struct, frozen=True):
    """What was seen of one view."""

    id: int
    kind: Literal["complete", "partial", "none"]
    """How much is seen, until now."""
    opened: tuple[str, ...]
    """Wanted files that were opened and not told of before."""
    last: bool = False


def encode(message: Order | Sighting) -> bytes:
    """`message` as one line."""
    return msgspec.json.encode(message) + b"\n"
