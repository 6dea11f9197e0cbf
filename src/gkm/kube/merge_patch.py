"""The difference between two JSON objects as a merge patch (RFC 7396). Pure.

A patch made of what differs, and nothing else, is one write per real change and none at rest; and it removes
what another writer put there, a forged entry say, which a server-side apply would leave.
"""

from collections.abc import Mapping
from typing import Any


def merge_patch(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The patch that makes `current` into `wanted`; empty where they are equal.

    Objects are compared member by member, lists as wholes. `wanted` holds no nulls: a merge patch cannot set
    one.
    """
    patch: dict[str, Any] = dict.fromkeys(current.keys() - wanted.keys())
    for name, value in wanted.items():
        there = current.get(name)
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            if inner := merge_patch(there, value):
                patch[name] = inner
        elif name not in current or there != value:
            patch[name] = value
    return patch
