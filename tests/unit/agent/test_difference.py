"""A merge patch does what RFC 7386 says it does."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gkm.agent.difference import merge_patch

_KEYS = st.sampled_from(["a", "b", "c"])
_OBJECTS = st.recursive(
    st.dictionaries(_KEYS, st.integers(0, 2) | st.lists(st.integers(0, 2), max_size=2), max_size=3),
    lambda inner: st.dictionaries(_KEYS, inner | st.integers(0, 2), max_size=3),
    max_leaves=8,
)


def applied(target: Any, patch: Any) -> Any:
    """RFC 7386, section 2, word for word."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = applied(result.get(name), value)
    return result


@given(_OBJECTS, _OBJECTS)
def test_applied_to_the_old_it_gives_the_new(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert applied(old, merge_patch(old, new)) == new


@given(_OBJECTS)
def test_equal_objects_need_no_patch(same: dict[str, Any]) -> None:
    assert merge_patch(same, same) == {}
