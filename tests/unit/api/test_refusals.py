"""What a CRD can't express is refused by name when the CRDs are generated, never passed through."""

import enum
from datetime import datetime
from typing import Annotated, Any, Literal, Optional

import msgspec
import pytest

from gkm.api.constraints import distinct, in_order, keyed, opaque
from gkm.api.descriptions import MissingDescriptionError
from gkm.api.schema import InexpressibleTypeError, structural
from gkm.api.wire import OpenEnum, Wire


class Colour(OpenEnum):
    RED = "Red"


class Closed(enum.StrEnum):
    RED = "Red"


class Recursive(Wire, frozen=True, kw_only=True):
    """A struct inside itself."""

    child: Optional["Recursive"] = None
    """Another one."""


class Tagged(msgspec.Struct, tag="x"):
    """A struct with a discriminator."""


class Undescribed(Wire, frozen=True, kw_only=True):
    """A struct with a field nobody explains."""

    described: int
    """This one is."""
    bare: int


def one_field(annotation: object, default: object = msgspec.NODEFAULT) -> type[msgspec.Struct]:
    """A struct whose field `it` has the given type and default."""
    return msgspec.defstruct(
        "Subject", [("it", annotation, default)], bases=(Wire,), namespace={"__doc__": "A."}
    )


@pytest.mark.parametrize(
    ("annotation", "word"),
    [
        pytest.param(float, "float", id="float"),
        pytest.param(bytes, "bytes", id="bytes"),
        pytest.param(set[str], "set", id="set"),
        pytest.param(Any, "any", id="any"),
        pytest.param(list[str], "list", id="mutable list"),
        pytest.param(int | bool, "union", id="union of scalars"),
        pytest.param(str | dict[str, str], "union", id="union of shapes"),
        pytest.param(Literal["a", "b"], "OpenEnum", id="literal"),
        pytest.param(Closed, "OpenEnum", id="closed enumeration"),
        pytest.param(tuple[str, ...], "merges", id="list that does not say how it merges"),
        pytest.param(tuple[str, int], "tuple", id="fixed tuple"),
        pytest.param(dict[str, Any], "opaque", id="dict of anything"),
        pytest.param(dict[int, str], "keys", id="map with integer keys"),
        pytest.param(dict[Annotated[str, in_order()], str], "keys", id="map with checked keys"),
        pytest.param(
            Annotated[str, msgspec.Meta(max_length=3)], "max_length", id="text limit in the decoder"
        ),
        pytest.param(Annotated[int, msgspec.Meta(ge=0)], "ge", id="integer bound in the decoder"),
        pytest.param(Annotated[datetime, msgspec.Meta(tz=True)], "tz", id="time zone in the decoder"),
        pytest.param(
            Annotated[str, msgspec.Meta(extra_json_schema={"type": "integer"})], "twice", id="type said twice"
        ),
        pytest.param(Tagged, "tagged", id="tagged struct"),
    ],
)
def test_inexpressible_type_is_refused_with_its_place(annotation: object, word: str) -> None:
    with pytest.raises(InexpressibleTypeError, match=rf"(?i)^(Subject\.it|Tagged): .*{word}"):
        structural(one_field(annotation))


def test_struct_inside_itself_is_refused() -> None:
    with pytest.raises(InexpressibleTypeError, match=r"^Recursive: a struct inside itself"):
        structural(Recursive)


@pytest.mark.parametrize("default", [7, "", False])
def test_default_in_a_struct_is_refused_because_it_would_not_be_sent(default: object) -> None:
    with pytest.raises(
        InexpressibleTypeError, match=rf"Subject\.it: the default {default!r}.*constraints\.default"
    ):
        structural(one_field(type(default), default))


def test_default_factory_in_a_struct_is_refused_for_the_same_reason() -> None:
    with pytest.raises(InexpressibleTypeError, match=r"Subject\.it: a default factory"):
        structural(one_field(str, msgspec.field(default_factory=str)))


def test_field_without_docstring_is_refused() -> None:
    with pytest.raises(MissingDescriptionError, match=r"Undescribed\.bare has no docstring"):
        structural(Undescribed)


class Everything(Wire, frozen=True, kw_only=True):
    """All that a CRD can say."""

    text: str
    """A text that
    goes over ``two`` lines."""
    count: int | None = None
    """A count."""
    flag: bool | None = None
    """A flag."""
    when: datetime | None = None
    """A time."""
    colour: Colour | None = None
    """A colour."""
    size: int | str | None = None
    """A size."""
    names: Annotated[tuple[str, ...] | None, distinct(at_most=3)] = None
    """Names."""
    parts: Annotated[tuple["Part", ...] | None, keyed("id")] = None
    """Parts."""
    by_name: dict[str, "Part"] | None = None
    """Parts by name."""
    foreign: Annotated[dict[str, Any] | None, opaque()] = None
    """Somebody else's."""
    renamed: int | None = msgspec.field(default=None, name="RENAMED")
    """A field with a name of its own."""


class Part(Wire, frozen=True, kw_only=True):
    """A part."""

    id: int
    """Its number."""


def test_all_that_can_be_said_is_said() -> None:
    part = {
        "type": "object",
        "properties": {"id": {"description": "Its number.", "type": "integer"}},
        "required": ["id"],
    }
    assert structural(Everything) == {
        "description": "All that a CRD can say.",
        "type": "object",
        "required": ["text"],
        "properties": {
            "text": {"description": "A text that goes over `two` lines.", "type": "string"},
            "count": {"description": "A count.", "type": "integer"},
            "flag": {"description": "A flag.", "type": "boolean"},
            "when": {"description": "A time.", "type": "string", "format": "date-time"},
            "colour": {"description": "A colour.", "type": "string", "enum": ["Red"]},
            "size": {"description": "A size.", "x-kubernetes-int-or-string": True},
            "names": {
                "description": "Names.",
                "type": "array",
                "items": {"type": "string"},
                "x-kubernetes-list-type": "set",
                "maxItems": 3,
            },
            "parts": {
                "description": "Parts.",
                "type": "array",
                "items": part,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["id"],
            },
            "byName": {"description": "Parts by name.", "type": "object", "additionalProperties": part},
            "foreign": {
                "description": "Somebody else's.",
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
            },
            "RENAMED": {"description": "A field with a name of its own.", "type": "integer"},
        },
    }
