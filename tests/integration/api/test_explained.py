"""`kubectl explain` knows every field, and says what it is for."""

from typing import Any

import pytest

from gkm.api import crd
from gkm.api.definitions import DEFINITIONS, Definition
from gkm.api.reference import fields
from gkm.api.wire import API_VERSION
from support.devcluster import Cluster
from support.installed import eventually

ALL = pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.kind)


def ours(definition: Definition) -> dict[str, str]:
    """Our fields' descriptions, by path as kubectl writes paths."""
    found = fields(crd.root_schema(definition))
    return {
        field.path.replace("[]", "").replace("{}", ""): field.schema["description"]
        for field in found
        if field.path.startswith(("spec", "status"))
    }


def tree(explained: str) -> set[str]:
    """The paths in the output of `kubectl explain --recursive`, which shows depth by two spaces each."""
    paths: set[str] = set()
    stack: list[str] = []
    for line in explained.partition("FIELDS:\n")[2].splitlines():
        name, tab, _ = line.partition("\t<")
        if tab:
            depth = (len(name) - len(name.lstrip())) // 2
            stack[depth - 1 :] = [name.strip()]
            paths.add(".".join(stack))
    return {path for path in paths if path.startswith(("spec", "status"))}


@pytest.fixture(scope="module", autouse=True)
def published(with_crds: Cluster) -> None:
    """The API server publishes the schemas of definitions a moment after it has established them."""
    for definition in DEFINITIONS:
        explain = ("explain", definition.plural)
        eventually(lambda words=explain: with_crds.run_kubectl(*words).returncode == 0, " ".join(explain))


@ALL
def test_explain_recursive_shows_every_field(definition: Definition, with_crds: Cluster) -> None:
    assert tree(with_crds.kubectl("explain", definition.plural, "--recursive")) == ours(definition).keys()


@ALL
def test_served_schema_describes_every_field(definition: Definition, server) -> None:
    """The document that `kubectl explain` prints from."""
    served = server.read(f"/openapi/v3/apis/{API_VERSION}")["components"]["schemas"]
    schema: dict[str, Any] = next(
        schema
        for schema in served.values()
        if any(gvk["kind"] == definition.kind for gvk in schema.get("x-kubernetes-group-version-kind", []))
    )
    told = {
        field.path.replace("[]", "").replace("{}", ""): field.schema.get("description")
        for field in fields(schema)
        if field.path.startswith(("spec", "status"))
    }
    assert told == ours(definition)


def test_explain_prints_the_words_of_the_struct(with_crds: Cluster) -> None:
    definition = DEFINITIONS[0]
    told = " ".join(with_crds.kubectl("explain", f"{definition.plural}.spec.whenUnavailable").split())
    assert ours(definition)["spec.whenUnavailable"] in told
    assert "ENUM: Wait StartCold" in told
