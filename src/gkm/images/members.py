"""What a member of a cache image may be called: the same rules when packing and when unpacking.

A name is a relative POSIX path of plain components. ``./a`` (GNU tar) is read as ``a``; anything else that
two readers could understand differently is refused.
"""

import re

from gkm.images.limits import Limits
from gkm.images.unpack_errors import (
    AbsolutePathError,
    InvalidNameError,
    NameTooLongError,
    PathTraversalError,
    TooDeepError,
    WhiteoutError,
    shown,
)

# C0, DEL and C1: they can rewrite what a terminal shows, and split lines in the list of digests.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_WHITEOUT = ".wh."


def split_name(name: str, limits: Limits) -> tuple[str, ...]:
    """The components of a member's `name`, without a leading ``./`` and trailing slash; () for the root.

    Raises:
        AbsolutePathError, PathTraversalError, InvalidNameError, NameTooLongError, TooDeepError,
        WhiteoutError: the name is none that a cache image may hold.
    """
    if name.startswith("/"):
        raise AbsolutePathError(f"the image names an absolute path: {shown(name)}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise InvalidNameError(f"a name is not UTF-8: {shown(name)}") from error
    if size > limits.path_bytes:
        raise NameTooLongError(f"a name has {size} bytes, more than {limits.path_bytes}: {shown(name)}")
    if _CONTROL.search(name):
        raise InvalidNameError(f"a name holds control characters: {shown(name)}")
    plain = name.removeprefix("./").removesuffix("/")
    if plain in ("", "."):
        return ()
    parts = tuple(plain.split("/"))
    for part in parts:
        _check_component(part, name, limits)
    if len(parts) > limits.depth:
        raise TooDeepError(f"{len(parts)} levels, more than {limits.depth}: {shown(name)}")
    return parts


def _check_component(part: str, name: str, limits: Limits) -> None:
    if part == "..":
        raise PathTraversalError(f"the image names a path outside its tree: {shown(name)}")
    if part in ("", "."):
        raise InvalidNameError(f"a name has an empty or '.' component: {shown(name)}")
    if len(part.encode()) > limits.component_bytes:
        raise NameTooLongError(f"a component has more than {limits.component_bytes} bytes: {shown(name)}")
    if part.startswith(_WHITEOUT):
        raise WhiteoutError(
            f"the image deletes files of its own lower layers ({shown(name)}): "
            "build it again with the cache in one layer"
        )
