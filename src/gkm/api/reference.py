"""The reference page of the custom resources, from the same schemas as the CRDs."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from gkm.api.crd import root_schema
from gkm.api.definitions import DEFINITIONS, Definition
from gkm.api.wire import GROUP, VERSION

_HEAD = f"""<!-- Made from src/gkm/api by `make generate`. Change the structs there, not this file. -->

# Custom resources of `{GROUP}/{VERSION}`

The CRDs are in `deploy/crds`. `kubectl explain` says the same as this page, `kubectl get gkm` lists objects
of all kinds. In paths, `[]` stands for each item of a list and `{{}}` for each value of a map.
"""


class Field(NamedTuple):
    """One property somewhere in a schema."""

    path: str
    """``spec.podTemplate.spec.tolerations[].key``."""
    schema: dict[str, Any]
    required: bool


def page() -> str:
    """The Markdown text of `docs/reference/resources.md`; the same text from the same structs."""
    return "\n".join([_HEAD, *(line for definition in DEFINITIONS for line in _section(definition))])


def fields(schema: dict[str, Any], path: str = "") -> Iterator[Field]:
    """Every property below `schema`, parents first, in the structs' order."""
    required = schema.get("required", [])
    for name, child in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield Field(here, child, name in required)
        yield from fields(*_below(child, here))


def _below(schema: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    """The object that lists or maps hold in the end, and its path."""
    while True:
        if "items" in schema:
            schema, path = schema["items"], f"{path}[]"
        elif "additionalProperties" in schema:
            schema, path = schema["additionalProperties"], f"{path}{{}}"
        else:
            return schema, path


def _section(definition: Definition) -> Iterator[str]:
    schema = root_schema(definition)
    scope = "namespaced" if definition.namespaced else "cluster-scoped"
    columns = ", ".join(f"`{c.name.upper()}`{' (wide)' if c.wide else ''}" for c in definition.columns)
    yield f"## {definition.kind}\n"
    yield f"{schema['description']}\n"
    yield f"`{definition.crd_name}`, short name `{definition.short_name}`, {scope}. Columns: {columns}.\n"
    yield from (f"Rule: {rule.message}.\n" for rule in definition.rules)
    yield "| field | type | meaning |"
    yield "| --- | --- | --- |"
    yield from (_row(field) for field in fields(schema) if field.path.startswith(("spec", "status")))
    yield ""


def _row(field: Field) -> str:
    kind = _kind(field.schema) + (", required" if field.required else "")
    return f"| `{field.path}` | {_cell(kind)} | {_cell(_meaning(field.schema))} |"


def _kind(schema: dict[str, Any]) -> str:
    if "x-kubernetes-int-or-string" in schema:
        return "integer or string"
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return "object, as Kubernetes has it"
    if "items" in schema:
        return f"list of {_kind(schema['items'])}"
    if "additionalProperties" in schema:
        return f"map of {_kind(schema['additionalProperties'])}"
    kind: str = schema.get("format", schema["type"])
    return kind


def _meaning(schema: dict[str, Any]) -> str:
    parts = [schema["description"]]
    values = schema.get("enum") or schema.get("items", {}).get("enum")
    if values:
        parts.append(f"One of {', '.join(f'`{value}`' for value in values)}.")
    if "default" in schema:
        parts.append(f"Default: `{json.dumps(schema['default'])}`.")
    if "minimum" in schema:
        most = f", at most {schema['maximum']}" if "maximum" in schema else ""
        parts.append(f"At least {schema['minimum']}{most}.")
    parts.extend(f"Rule: {rule['message']}." for rule in schema.get("x-kubernetes-validations", []))
    return " ".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
