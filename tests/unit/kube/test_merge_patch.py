"""Merge patches: applied as RFC 7396 says, they give what is wanted; where nothing differs they are empty."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gkm.kube.merge_patch import merge_patch

_LEAVES = st.integers(0, 2) | st.sampled_from(["", "a"]) | st.lists(st.integers(0, 1), max_size=2)
_OBJECTS = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(_LEAVES, lambda inner: st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)),
    max_size=3,
)


def applied(target: Any, patch: Any) -> Any:
    """RFC 7396, section 2."""
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
def test_the_patch_makes_the_one_into_the_other(current: dict[str, Any], wanted: dict[str, Any]) -> None:
    patch = merge_patch(current, wanted)
    assert applied(current, patch) == wanted
    assert (patch == {}) == (current == wanted)


def test_what_another_writer_put_there_is_removed() -> None:
    assert merge_patch({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}) == {"a": {"c": None}}
