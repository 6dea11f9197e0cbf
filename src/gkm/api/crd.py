"""The CustomResourceDefinition of a kind, as plain data and as YAML."""

from typing import Any

import msgspec

from gkm.api.definitions import CATEGORY, Column, Definition
from gkm.api.schema import structural
from gkm.api.wire import GROUP, VERSION

_HEADER = "# Made from src/gkm/api by `make generate`. Change the structs there, not this file.\n"

_API_VERSION = {
    "type": "string",
    "description": f"The version of this representation: `{GROUP}/{VERSION}`.",
}


def manifest(definition: Definition) -> dict[str, Any]:
    """The CRD of `definition` (apiextensions.k8s.io/v1).

    Raises:
        InexpressibleTypeError, MissingDescriptionError: see `gkm.api.schema.structural`.
    """
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": definition.crd_name},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if definition.namespaced else "Cluster",
            "names": {
                "kind": definition.kind,
                "listKind": f"{definition.kind}List",
                "plural": definition.plural,
                "singular": definition.singular,
                "shortNames": [definition.short_name],
                "categories": [CATEGORY],
            },
            "versions": [_version(definition)],
        },
    }


def manifest_yaml(definition: Definition) -> bytes:
    """The CRD of `definition` as the file in `deploy/crds` holds it; the same bytes from the same structs."""
    return _HEADER.encode() + msgspec.yaml.encode(manifest(definition))


def file_name(definition: Definition) -> str:
    """The CRD's file in `deploy/crds`: ``gkm.io_gkmcaches.yaml``."""
    return f"{GROUP}_{definition.plural}.yaml"


def _version(definition: Definition) -> dict[str, Any]:
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [_column(column) for column in definition.columns],
        "schema": {"openAPIV3Schema": root_schema(definition)},
    }
    if definition.has_status:
        version["subresources"] = {"status": {}}
    return version


def root_schema(definition: Definition) -> dict[str, Any]:
    """The schema of whole objects of `definition`."""
    schema = structural(definition.struct)
    if definition.rules:
        schema["x-kubernetes-validations"] = [msgspec.to_builtins(rule) for rule in definition.rules]
    return schema


def _column(column: Column) -> dict[str, Any]:
    shown = {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.path,
        "description": column.description,
    }
    return {**shown, "priority": 1} if column.wide else shown
