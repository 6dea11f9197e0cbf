"""Turns a wire struct into a structural OpenAPI v3 schema, the only kind that a CRD may have.

Works on `msgspec.inspect`'s tree of types, not on `msgspec.json.schema`'s JSON: nothing has to be undone (no
``$ref``, no ``anyOf`` with null, no titles), and a type that a CRD can't express is refused by name instead
of passing through. The rules of `gkm.api.wire` are enforced here, when the CRDs are generated.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect as types

from gkm.api.descriptions import class_description, field_description
from gkm.api.meta import Object, ObjectMeta
from gkm.api.wire import OpenEnum

Schema = dict[str, Any]

_PRESERVE = "x-kubernetes-preserve-unknown-fields"


class InexpressibleTypeError(TypeError):
    """A struct has a type, default or constraint that a CRD can't express or `gkm.api.wire` rules out."""


def structural(struct: type[msgspec.Struct]) -> Schema:
    """The structural schema of `struct`: every property described, every list with its way of merging.

    A field of type `ObjectMeta` becomes a bare object, as the root of a CRD wants it.

    Raises:
        InexpressibleTypeError: a field can't be expressed; the message names it and what to write instead.
        MissingDescriptionError: a field has no docstring.
    """
    info = types.type_info(struct)
    assert isinstance(info, types.StructType)
    return {"description": class_description(struct), **_struct(info, ())}


def _struct(info: types.StructType, outer: tuple[type, ...]) -> Schema:
    if info.cls in outer:
        raise _refusal(
            info.cls.__qualname__, "a struct inside itself", "bound the depth by different structs"
        )
    if info.cls is ObjectMeta:
        return {"type": "object"}
    if info.tag is not None or info.array_like or info.forbid_unknown_fields:
        raise _refusal(
            info.cls.__qualname__, "a tagged, array-like or closed struct", "derive from Wire alone"
        )
    properties: Schema = {}
    for field in info.fields:
        place = f"{info.cls.__qualname__}.{field.name}"
        if field.default not in (msgspec.NODEFAULT, None):
            raise _refusal(
                place, f"the default {field.default!r}", "default to None and use constraints.default()"
            )
        if field.default_factory is not msgspec.NODEFAULT and not issubclass(info.cls, Object):
            raise _refusal(place, "a default factory", "default to None and use constraints.default()")
        schema = _type(field.type, place, (*outer, info.cls))
        if not _is_metadata(field):  # where the API server allows no words of ours
            schema = {"description": field_description(info.cls, field.name), **schema}
        properties[field.encode_name] = schema
    required = [field.encode_name for field in info.fields if field.required and not _is_metadata(field)]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _is_metadata(field: types.Field) -> bool:
    return isinstance(field.type, types.StructType) and field.type.cls is ObjectMeta


def _type(info: types.Type, place: str, outer: tuple[type, ...]) -> Schema:
    keywords, inner = _unwrap(info)
    match inner:
        case types.DictType(value_type=types.AnyType()):
            if not keywords.get(_PRESERVE):
                raise _refusal(
                    place, "a dict of anything", "say so with constraints.opaque(), or write a struct"
                )
            schema: Schema = {"type": "object"}
        case types.DictType():
            _check_key(inner.key_type, place)
            schema = {"type": "object", "additionalProperties": _type(inner.value_type, place, outer)}
        case types.VarTupleType():
            if "x-kubernetes-list-type" not in keywords:
                raise _refusal(
                    place, "a list that does not say how it merges", "use in_order, distinct or keyed"
                )
            schema = {"type": "array", "items": _type(inner.item_type, place, outer)}
        case types.StructType():
            schema = _struct(inner, outer)
        case types.UnionType():
            schema = _union(inner, place)
        case _:
            schema = _scalar(inner, place)
    _refuse_decoder_constraints(inner, place)
    clash = sorted(keywords.keys() & schema.keys())
    if clash:
        raise _refusal(place, f"{', '.join(clash)} given twice", "leave to the type what the type says")
    return {**schema, **keywords}


def _unwrap(info: types.Type) -> tuple[Schema, types.Type]:
    """The keywords that Annotated adds at this level, and the type without them and without `| None`."""
    keywords: Schema = {}
    while True:
        match info:
            case types.Metadata():
                keywords = {**(info.extra_json_schema or {}), **keywords}
                info = info.type
            case types.UnionType() if len(rest := tuple(_without_none(info))) == 1:
                info = rest[0]
            case _:
                return keywords, info


def _without_none(info: types.UnionType) -> Iterator[types.Type]:
    return (member for member in info.types if not isinstance(member, types.NoneType))


def _union(info: types.UnionType, place: str) -> Schema:
    members = {type(member) for member in _without_none(info)}
    if members == {types.IntType, types.StrType}:
        return {"x-kubernetes-int-or-string": True}
    raise _refusal(place, "a union", "use X | None or int | str, or one struct with optional fields")


def _scalar(info: types.Type, place: str) -> Schema:
    match info:
        case types.StrType():
            return {"type": "string"}
        case types.IntType():
            return {"type": "integer"}
        case types.BoolType():
            return {"type": "boolean"}
        case types.DateTimeType():
            return {"type": "string", "format": "date-time"}
        case types.EnumType() if issubclass(info.cls, OpenEnum):
            return {"type": "string", "enum": [member.value for member in info.cls]}
        case types.EnumType() | types.LiteralType():
            raise _refusal(place, "a closed set of values", "use an OpenEnum, so that new values can be read")
        case _:
            raise _refusal(place, type(info).__name__.removesuffix("Type").lower(), "use a type a CRD has")


def _check_key(info: types.Type, place: str) -> None:
    if not isinstance(info, types.StrType):
        raise _refusal(
            place, "a map whose keys are not plain text", "use dict[str, X]; keys can't be checked"
        )


def _refuse_decoder_constraints(info: types.Type, place: str) -> None:
    for name in ("min_length", "max_length", "pattern", "gt", "ge", "lt", "le", "multiple_of", "tz"):
        if getattr(info, name, None) is not None:
            raise _refusal(place, f"the decoder's constraint {name}", "use gkm.api.constraints")


def _refusal(place: str, what: str, remedy: str) -> InexpressibleTypeError:
    return InexpressibleTypeError(f"{place}: {what} can't go into a CRD; {remedy}")
