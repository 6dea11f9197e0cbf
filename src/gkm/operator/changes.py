"""The difference between two JSON objects as a merge patch (RFC 7396).

A patch made of what differs, and nothing else, is one write per real change and none at rest; and it removes
what another writer put there, which a server-side apply would leave.
"""

from typing import Any


def merge_patch(current: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The patch that makes `current` into `wanted`; empty where they are equal.

    Objects are compared member by member, lists as wholes. `wanted` holds no nulls: a merge patch cannot set
    one.
    """
    patch: dict[str, Any] = {name: None for name in current if name not in wanted}
    for name, value in wanted.items():
        there = current.get(name)
        if isinstance(value, dict) and isinstance(there, dict):
            if inner := merge_patch(there, value):
                patch[name] = inner
        elif name not in current or there != value:
            patch[name] = value
    return patch
