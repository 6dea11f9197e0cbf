"""The words in which a field says what the API server shall check: each is a piece of OpenAPI v3 schema.

Used as ``Annotated[str | None, pattern(DIGEST, 71)]``. All are `msgspec.Meta` with `extra_json_schema`, so
they reach the CRD and never the decoder (`gkm.api.wire`, rule 2). Which to use: the keywords of OpenAPI where
they say enough, because editors and linters read them; CEL where a keyword's message would not tell what to
do, or where two fields meet. What may be said is in Kubernetes' "Structural schemas" and "Validation rules".
"""

from typing import Any

import msgspec
from msgspec import Meta

DIGEST = "^sha256:[0-9a-f]{64}$"
"""OCI image-spec, descriptor.md, "Digests"; GKM uses sha256 alone."""
DIGEST_LENGTH = len("sha256:") + 64
DNS_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
"""RFC 1123 label: namespace names."""
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
"""RFC 1123 subdomain: names of most objects."""
LABEL_VALUE = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
"""Kubernetes, "Labels and Selectors", syntax of values; at most 63 characters."""
CAMEL_WORD = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
"""What metav1.Condition allows as `reason`."""


class Rule(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One CEL rule of a CRD (``x-kubernetes-validations``)."""

    rule: str
    """The expression; `self` is the value it stands at, `oldSelf` makes it a rule about changes."""
    message: str
    """What the user reads: what the value must be, or what to do instead."""
    field_path: str | None = None
    """The field to blame below `self` (``.delivery``); None blames `self`."""


def _schema(**keywords: object) -> Meta:
    return Meta(extra_json_schema=keywords)


def default(value: object) -> Meta:
    """The API server fills in `value` where the field is absent."""
    return _schema(default=msgspec.to_builtins(value))


def between(minimum: int, maximum: int | None = None) -> Meta:
    """An integer, both ends included."""
    if maximum is None:
        return _schema(minimum=minimum)
    return _schema(minimum=minimum, maximum=maximum)


def int64() -> Meta:
    """An integer that may not fit 32 bits; for readers in other languages."""
    return _schema(format="int64")


def length(maximum: int) -> Meta:
    """Text of at most so many characters. CEL needs a bound to estimate what a rule costs."""
    return _schema(maxLength=maximum)


def pattern(regex: str, maximum: int) -> Meta:
    """Text of at most `maximum` characters that matches `regex` (RE2, anchored by its writer)."""
    return _schema(pattern=regex, maxLength=maximum)


def in_order(at_most: int | None = None) -> Meta:
    """A list that is replaced as a whole, because its order means something or its items have no name."""
    return _list("atomic", at_most)


def distinct(at_most: int) -> Meta:
    """A list of scalars without duplicates or order; several appliers may each own items."""
    return _list("set", at_most)


def keyed(*keys: str, at_most: int | None = None) -> Meta:
    """A list of objects told apart by `keys` (JSON names); several appliers may each own items."""
    return _list("map", at_most, {"x-kubernetes-list-map-keys": list(keys)})


def opaque() -> Meta:
    """An object of Kubernetes' own that we hand on unread: unknown fields are kept, not pruned."""
    return Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True})


def never(**values: object) -> Meta:
    """An object that has all the given properties, each as its schema (by JSON name) says, is refused.

    May be given several times; each stands for itself.
    """
    return _schema(allOf=[{"not": {"properties": values, "required": sorted(values)}}])


def rules(*given: Rule) -> Meta:
    """CEL rules at this value."""
    return Meta(extra_json_schema={"x-kubernetes-validations": [msgspec.to_builtins(rule) for rule in given]})


def immutable(name: str, remedy: str) -> Rule:
    """A rule of the parent object: its field `name` can't be set, changed or removed after creation.

    It stands at the parent because a rule at an optional field itself does not run when the field comes or
    goes.
    """
    return Rule(
        rule=(
            f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || self.{name} == oldSelf.{name})"
        ),
        message=f"{name} cannot change after creation; {remedy}",
        field_path=f".{name}",
    )


def _list(kind: str, at_most: int | None, more: dict[str, Any] | None = None) -> Meta:
    keywords = {"x-kubernetes-list-type": kind, **(more or {})}
    if at_most is not None:
        keywords["maxItems"] = at_most
    return Meta(extra_json_schema=keywords)
