"""The CRDs as they are shipped: structural, described, with upstream's surface, and made from the structs."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from gkm.api import crd, generate
from gkm.api.definitions import DEFINITIONS, Definition
from gkm.api.reference import Field, fields
from support.parts import REPOSITORY

ALL = pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.kind)

VALUE_ONLY = {"properties", "required", "enum", "not", "allOf", "minimum", "maximum", "pattern"}
"""What may stand below allOf and not (Kubernetes, "Structural schemas"): no type, description or default."""


def nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every schema in `schema`, itself included; what stands below allOf and not is left out."""
    yield schema
    for child in schema.get("properties", {}).values():
        yield from nodes(child)
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from nodes(schema[key])


def by_path(definition: Definition) -> dict[str, Field]:
    return {field.path: field for field in fields(crd.root_schema(definition))}


def conjuncts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for part in schema.get("allOf", []):
        yield part
        yield part["not"]
        yield from part["not"]["properties"].values()


@ALL
def test_every_schema_is_structural(definition: Definition) -> None:
    for node in nodes(crd.root_schema(definition)):
        assert ("type" in node) != ("x-kubernetes-int-or-string" in node), node
        assert not node.keys() & {"$ref", "$defs", "anyOf", "oneOf", "title", "nullable", "uniqueItems"}, node
        assert node.get("additionalProperties") is not False
        assert set(node.get("required", [])) <= node.get("properties", {}).keys()
        assert all(part.keys() <= VALUE_ONLY for part in conjuncts(node)), node


@ALL
def test_every_field_is_described(definition: Definition) -> None:
    known = by_path(definition)
    del known["metadata"]  # the API server allows no words of ours there
    missing = [path for path, field in known.items() if not field.schema.get("description")]
    assert missing == []


@ALL
def test_keys_of_list_maps_are_required_scalars(definition: Definition) -> None:
    for node in nodes(crd.root_schema(definition)):
        for key in node.get("x-kubernetes-list-map-keys", []):
            assert key in node["items"]["required"]
            assert node["items"]["properties"][key]["type"] in {"string", "integer"}


@ALL
def test_defaults_are_values_the_schema_allows(definition: Definition) -> None:
    """As the API server checks, too; here the enumerations, so that a rename shows at once."""
    for field in by_path(definition).values():
        if "default" in field.schema:
            given = field.schema["default"]
            allowed = field.schema.get("enum") or field.schema.get("items", {}).get("enum")
            if allowed:
                assert set(given if isinstance(given, list) else [given]) <= set(allowed), field.path


@ALL
def test_columns_point_at_fields_of_their_type(definition: Definition) -> None:
    known = by_path(definition)
    for column in definition.columns:
        if column.path == ".metadata.creationTimestamp":
            assert column.type == "date"
        elif column.path.endswith("[0]"):
            assert known[column.path[1:-3]].schema["items"]["type"] == column.type
        else:
            assert known[column.path[1:]].schema["type"] == column.type


def test_names_of_the_kinds() -> None:
    assert [(r.crd_name, r.singular, r.short_name, r.namespaced, r.has_status) for r in DEFINITIONS] == [
        ("gkmcaches.gkm.io", "gkmcache", "gkmc", True, True),
        ("clustergkmcaches.gkm.io", "clustergkmcache", "cgkmc", False, True),
        ("gkmcachenodes.gkm.io", "gkmcachenode", "gkmcn", True, True),
        ("clustergkmcachenodes.gkm.io", "clustergkmcachenode", "cgkmcn", False, True),
        ("gkmgrants.gkm.io", "gkmgrant", "gkmg", False, False),
    ]


COUNTERS = "nodeCnt nodeInUseCnt nodeNotInUseCnt nodeErrorCnt podRunningCnt podDeletingCnt podOutdatedCnt"
UPSTREAM_COUNTS = {f"status.counts.{name}": "integer" for name in COUNTERS.split()}
UPSTREAM_CACHE = UPSTREAM_COUNTS | {
    "spec.image": "string",
    "spec.podTemplate.metadata.labels": "object",
    "spec.podTemplate.metadata.annotations": "object",
    "spec.podTemplate.spec.nodeSelector": "object",
    "spec.podTemplate.spec.tolerations": "array",
    "spec.podTemplate.spec.tolerations[].tolerationSeconds": "integer",
    "spec.podTemplate.spec.affinity": "object",
    "spec.podTemplate.spec.priorityClassName": "string",
    "spec.storageClassName": "string",
    "spec.accessModes": "array",
    "spec.workloadNamespaces": "array",
    "status.resolvedDigest": "string",
    "status.pvcOwner": "string",
    "status.pvcStatus{}.pvName": "string",
    "status.pvcStatus{}.pvcName": "string",
    "status.pvcStatus{}.jobName": "string",
    "status.pvcStatus{}.pvcOwner": "string",
    "status.pvcStatus{}.conditions": "array",
    "status.conditions": "array",
    "status.lastUpdated": "string",
}
UPSTREAM_NODE = UPSTREAM_COUNTS | {
    "status.nodeName": "string",
    "status.gpus[].gpuType": "string",
    "status.gpus[].driverVersion": "string",
    "status.gpus[].ids": "array",
    "status.caches{}{}.compatibleGPUs": "array",
    "status.caches{}{}.incompatibleGPUs": "array",
    "status.caches{}{}.lastUpdated": "string",
    "status.caches{}{}.pvcStatus{}.pvcName": "string",
    "status.caches{}{}.volumeSize": "integer",
    "status.caches{}{}.pods[].podNamespace": "string",
    "status.caches{}{}.pods[].podName": "string",
    "status.caches{}{}.pods[].volumeId": "string",
}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("GKMCache", UPSTREAM_CACHE),
        ("ClusterGKMCache", UPSTREAM_CACHE),
        ("GKMCacheNode", UPSTREAM_NODE),
        ("ClusterGKMCacheNode", UPSTREAM_NODE),
    ],
)
def test_upstream_fields_stay_with_their_types(kind: str, expected: dict[str, str]) -> None:
    known = by_path(next(definition for definition in DEFINITIONS if definition.kind == kind))
    assert {path: known[path].schema["type"] for path in expected if path in known} == expected


def test_upstream_defaults_and_required_fields_stay() -> None:
    known = by_path(DEFINITIONS[0])
    assert known["spec.accessModes"].schema["default"] == ["ReadWriteOnce"]
    assert known["status.pvcOwner"].schema["default"] == "Unknown"
    assert known["status.pvcOwner"].schema["enum"] == ["Unknown", "Agent", "Operator"]
    assert [path for path, field in known.items() if field.required and path.startswith("spec.")] == [
        "spec.image",
        "spec.imagePullSecrets[].name",
    ]


def test_checked_in_files_are_what_the_structs_give() -> None:
    assert generate.drift(REPOSITORY) == []


def test_drift_is_seen_and_mended(tmp_path, capsys) -> None:
    root = ["--root", str(tmp_path)]
    assert generate.main(["--check", *root]) == 1
    assert generate.main(root) == 0
    assert generate.main(["--check", *root]) == 0

    changed = tmp_path / generate.CRDS / "gkm.io_gkmcaches.yaml"
    changed.write_bytes(changed.read_bytes() + b"#\n")
    stranger = tmp_path / generate.CRDS / "gkm.io_forgotten.yaml"
    stranger.write_text("{}")
    capsys.readouterr()
    assert generate.main(["--check", *root]) == 1
    told = capsys.readouterr().out
    assert "gkm.io_gkmcaches.yaml" in told
    assert "gkm.io_forgotten.yaml" in told
    assert stranger.exists()
    generate.main(root)
    assert not stranger.exists()
    assert generate.drift(tmp_path) == []


@ALL
def test_yaml_file_says_what_the_manifest_says(definition: Definition) -> None:
    assert msgspec.yaml.decode(crd.manifest_yaml(definition)) == crd.manifest(definition)
