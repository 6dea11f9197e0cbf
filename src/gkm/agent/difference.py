"""From one JSON object to another, as a merge patch (RFC 7386). Pure.

Reports are patched rather than applied: an apply leaves what another manager put beside our fields, and a
forged entry would stay.
"""

from collections.abc import Mapping
from typing import Any


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """What turns `old` into `new`; empty when they are equal. `new` holds no nulls: in a patch they delete."""
    patch: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            if inner := merge_patch(before, value):
                patch[key] = inner
        elif key not in old or before != value:
            patch[key] = value
    return patch
