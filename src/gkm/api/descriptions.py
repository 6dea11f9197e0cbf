"""Reads the docstrings below a struct's fields, which Python keeps only in the source, for CRD and reference.

Runs when the CRDs are generated and in tests, where the source is at hand; never in a daemon.
"""

import ast
import functools
import inspect
import textwrap

import msgspec


class MissingDescriptionError(TypeError):
    """A field of a wire struct has no docstring below it, so `kubectl explain` could not explain it."""


@functools.cache
def field_descriptions(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The docstring of each field of `struct` that has one, by attribute name, as one paragraph of plain
    text.

    Fields of base classes are included. reStructuredText's double backticks become single ones.

    Raises:
        OSError: the source of the struct is not at hand.
    """
    found: dict[str, str] = {}
    for cls in reversed(struct.__mro__):
        if issubclass(cls, msgspec.Struct) and cls is not msgspec.Struct:
            found.update(_own_descriptions(cls))
    return found


def field_description(struct: type[msgspec.Struct], field: str) -> str:
    """The docstring below the field with attribute name `field`.

    Raises:
        MissingDescriptionError: there is none.
    """
    try:
        return field_descriptions(struct)[field]
    except KeyError:
        raise MissingDescriptionError(
            f"{struct.__module__}.{struct.__qualname__}.{field} has no docstring: write one below it"
        ) from None


def class_description(struct: type[msgspec.Struct]) -> str:
    """The docstring of the struct itself, as one paragraph.

    Raises:
        MissingDescriptionError: there is none.
    """
    if not struct.__doc__:
        raise MissingDescriptionError(
            f"{struct.__module__}.{struct.__qualname__} has no docstring: write one"
        )
    return _paragraph(struct.__doc__)


def _own_descriptions(cls: type) -> dict[str, str]:
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    pairs = zip(body.body, body.body[1:], strict=False)
    return {
        statement.target.id: _paragraph(following.value.value)
        for statement, following in pairs
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
        and isinstance(following.value.value, str)
    }


def _paragraph(text: str) -> str:
    return " ".join(text.split()).replace("``", "`")
