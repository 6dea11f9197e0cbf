"""Items come out whole and once, whatever the pieces were and however the server writes its JSON."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gkm.kube.splitting import ListSplitter

# Text that looks like the beginning or the end of items, in values and in keys.
LOOKALIKES = st.sampled_from(
    [
        '},{"metadata":',
        '},{\\"metadata\\":',
        "}]}",
        '"items":[',
        "{",
        "]",
        "\\",
        '"',
        "metadata",
        "items",
        "é",
        "",
    ]
)
VALUES = st.recursive(
    LOOKALIKES | st.integers() | st.none(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(LOOKALIKES, below, max_size=3),
    max_leaves=8,
)
INNER = st.lists(st.fixed_dictionaries({"metadata": VALUES}), max_size=3)
ITEMS = st.lists(
    st.fixed_dictionaries({"metadata": st.dictionaries(LOOKALIKES, VALUES, max_size=3), "list": INNER})
    | st.fixed_dictionaries({"apiVersion": st.just("g/v1"), "metadata": VALUES, "list": INNER}),
    max_size=12,
)
HEADS = st.sampled_from([{"kind": "PodList", "metadata": {"resourceVersion": "7"}}, {"apiVersion": "v1"}])
TAILS = st.sampled_from([{}, {"kind": "List", "metadata": {"resourceVersion": "7", "continue": "x"}}])
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": ")])


def split(text: bytes, sizes: list[int], part: int) -> tuple[list[Any], Any]:
    """The items given on the way, and what the end was left with."""
    splitter, found = ListSplitter(part), []
    for size in [*sizes, len(text)]:
        piece, text = text[:size], text[size:]
        found += [msgspec.json.decode(item) for item in splitter.feed(piece)]
    return found, msgspec.json.decode(splitter.end())


@given(ITEMS, HEADS, TAILS, SEPARATORS, st.lists(st.integers(0, 60)), st.integers(1, 90))
def test_any_list_in_any_pieces_gives_its_items_once_and_in_order(
    items: list[Any],
    head: dict[str, Any],
    tail: dict[str, Any],
    separators: tuple[str, str],
    sizes: list[int],
    part: int,
) -> None:
    answer = {**head, "items": items, **tail}
    found, rest = split(json.dumps(answer, separators=separators).encode(), sizes, part)
    assert found + rest.pop("items") == items
    assert rest == {key: value for key, value in answer.items() if key != "items"}


@pytest.mark.parametrize("text", [b'{"metadata":{},"items":[]}', b'{"items":null}', b"{}", b"<html>", b""])
def test_what_holds_no_items_is_left_as_it_is(text: bytes) -> None:
    splitter = ListSplitter(part=1)
    assert [item for byte in text for item in splitter.feed(bytes([byte]))] == []
    assert splitter.end() == text


@pytest.mark.parametrize(
    "first", ['{"metadata":{"name":', '{"apiVersion":"v1","kind":"Pod","metadata":{"name":']
)
def test_no_more_is_held_than_a_part_and_an_item(first: str) -> None:
    items = ",".join(f'{first}"object-{number}"}},"x":[{{"y":1}},{{"y":2}}]}}' for number in range(1000))
    text = f'{{"metadata":{{"resourceVersion":"1"}},"items":[{items}]}}'.encode()
    splitter, found, most = ListSplitter(part=1000), 0, 0
    for start in range(0, len(text), 100):
        found += len(splitter.feed(text[start : start + 100]))
        most = max(most, len(splitter.end()))
    assert found > 900
    assert most < 1500


def test_an_item_full_of_lookalikes_is_not_looked_through_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0
    decode = msgspec.json.decode

    def counting(text: bytes, **how: Any) -> Any:
        nonlocal looked
        looked += len(text)
        return decode(text, **how)

    inner = ",".join('{"metadata":1}' for _ in range(20_000))
    text = f'{{"items":[{{"metadata":{{}},"list":[{inner}]}},{{"metadata":{{}}}}]}}'.encode()
    splitter = ListSplitter(part=1000)
    monkeypatch.setattr("gkm.kube.splitting.msgspec.json.decode", counting)
    for start in range(0, len(text), 500):
        splitter.feed(text[start : start + 500])
    assert decode(splitter.end()) == decode(text)
    assert looked < 10 * len(text)
