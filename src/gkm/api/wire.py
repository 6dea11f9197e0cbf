"""What every struct of this room is made of: the base class, and enumerations that may grow.

Three rules hold for all wire types, and `gkm.api.schema` refuses a struct that breaks one:

1. Optional fields default to None and are left out when None. A default that users see is in the schema, and
   filled in by the API server: were it in the struct, `omit_defaults` would leave it out of an apply, and we
   would not own the field we set.
2. Constraints are in the schema alone (`gkm.api.constraints`). The API server refuses bad objects; a decoder
   that refused them again would let one object stored under an older schema stop a watch for all others.
3. Fields are described by the docstring below each; the CRD and the reference take their words from there.
"""

import enum
from typing import Self

import msgspec

GROUP = "gkm.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"


class Wire(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of all structs that travel to and from the API server; unknown fields are ignored on the way in.

    Subclasses repeat ``frozen=True, kw_only=True``: mypy does not inherit the first, msgspec not the second.
    """


class OpenEnum(enum.StrEnum):
    """Names for a field's values, without a promise that there are no others.

    A value that this release does not know decodes to a member with that value and no identity (compare with
    ``==``, never ``is``) and encodes back unchanged. Enumerations gain values within a version; a node agent
    one release behind its operator must not stop reading because of a new word.
    """

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        member = str.__new__(cls, value)
        member._name_ = value
        member._value_ = value
        return member
