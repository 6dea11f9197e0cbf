"""The option text of an overlay mount, read back as the kernel reads it."""

from hypothesis import given
from hypothesis import strategies as st

from gkm.store.overlay import Overlay, overlay_options

paths = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1).map(
    lambda text: "/" + text
)


def split(text: str, separator: str) -> list[str]:
    """Parts between separators that no backslash precedes (ovl_next_opt, ovl_parse_param_split_lowerdirs)."""
    parts, part, escaped = [], "", False
    for char in text:
        if not escaped and char == separator:
            parts.append(part)
            part = ""
            continue
        part += char
        escaped = not escaped and char == "\\"
    return [*parts, part]


def unescaped(text: str) -> str:
    """Without the backslashes (ovl_unescape)."""
    result, escaped = "", False
    for char in text:
        if escaped or char != "\\":
            result += char
            escaped = False
        else:
            escaped = True
    return result


@given(st.lists(paths, min_size=1, max_size=3), paths, paths, st.booleans())
def test_every_path_reaches_the_kernel_as_it_is(lowers: list[str], upper: str, work: str, user: bool) -> None:
    text = overlay_options(Overlay("/target", lowers, upper, work), user=user)
    options = split(text, ",")
    values = dict(option.split("=", 1) for option in options if "=" in option)
    assert [unescaped(lower) for lower in split(values["lowerdir"], ":")] == lowers
    assert unescaped(values["upperdir"]) == upper
    assert unescaped(values["workdir"]) == work
    assert "volatile" in options
    assert ("userxattr" in options) is user
