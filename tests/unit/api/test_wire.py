"""Structs on the wire: what is sent, what is borne, and that nothing is lost on the way."""

from datetime import UTC

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import inspect as types

from gkm.api.cache import CacheSpec, GKMCache
from gkm.api.definitions import DEFINITIONS, Definition
from gkm.api.meta import Object, ObjectMeta
from gkm.api.values import Delivery, Staging, WhenUnavailable
from gkm.api.wire import API_VERSION

SCALARS: dict[type, st.SearchStrategy[object]] = {
    types.StrType: st.text(max_size=4),
    types.IntType: st.integers(-(2**63), 2**63 - 1),
    types.BoolType: st.booleans(),
    types.DateTimeType: st.datetimes(timezones=st.just(UTC)),
    types.NoneType: st.none(),
    types.AnyType: st.none() | st.booleans() | st.text(max_size=4) | st.lists(st.integers(0, 9), max_size=2),
}


def values(info: types.Type) -> st.SearchStrategy[object]:
    """Any value of a type, of structs those with any of the optional fields."""
    match info:
        case types.Metadata():
            return values(info.type)
        case types.UnionType():
            return st.one_of(*map(values, info.types))
        case types.EnumType():
            return st.sampled_from(list(info.cls)) | st.text(max_size=4).map(info.cls)
        case types.VarTupleType():
            return st.lists(values(info.item_type), max_size=2).map(tuple)
        case types.DictType():
            return st.dictionaries(values(info.key_type), values(info.value_type), max_size=2)
        case types.StructType():
            wanted = {f.name: values(f.type) for f in info.fields if f.required}
            optional = {f.name: values(f.type) for f in info.fields if f.default is None}
            return st.fixed_dictionaries(wanted, optional=optional).map(lambda given: info.cls(**given))
        case _:
            return SCALARS[type(info)]


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.kind)
def test_any_object_survives_the_wire(definition: Definition) -> None:
    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(values(types.type_info(definition.struct)))
    def survives(value: Object) -> None:
        assert msgspec.json.decode(msgspec.json.encode(value), type=definition.struct) == value

    survives()


def sent(value: Object) -> dict[str, object]:
    result: dict[str, object] = msgspec.json.decode(msgspec.json.encode(value))
    return result


def test_apply_sends_what_was_set_even_where_it_equals_the_default() -> None:
    spec = CacheSpec(
        image="registry.example/a:1",
        staging=Staging.EAGER,
        when_unavailable=WhenUnavailable.START_COLD,
        wait_seconds=30,
        mount_path="/cache",
    )
    assert sent(GKMCache(metadata=ObjectMeta(name="a", namespace="n"), spec=spec)) == {
        "apiVersion": API_VERSION,
        "kind": "GKMCache",
        "metadata": {"name": "a", "namespace": "n"},
        "spec": {
            "image": "registry.example/a:1",
            "staging": "Eager",
            "whenUnavailable": "StartCold",
            "waitSeconds": 30,
            "mountPath": "/cache",
        },
    }


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.kind)
def test_every_kind_names_itself(definition: Definition) -> None:
    fields = {field.name: field for field in msgspec.structs.fields(definition.struct)}
    assert fields["kind"].default_factory() == definition.kind
    assert fields["api_version"].default_factory() == API_VERSION


def decode(**spec: object) -> GKMCache:
    return msgspec.convert({"metadata": {"name": "a"}, "spec": {"image": "x", **spec}}, GKMCache)


def test_value_of_a_later_release_is_borne_and_kept() -> None:
    cache = decode(delivery="Teleport", accessModes=["ReadWriteOnce", "ReadWriteMoon"])
    assert cache.spec.delivery == "Teleport"
    assert cache.spec.delivery not in list(Delivery)
    assert sent(cache)["spec"] == {
        "image": "x",
        "delivery": "Teleport",
        "accessModes": ["ReadWriteOnce", "ReadWriteMoon"],
    }
    assert [member.value for member in Delivery] == ["CSI", "SharedPVC", "NodePVC"]


def test_known_value_is_the_member() -> None:
    assert decode(delivery="CSI").spec.delivery is Delivery.CSI


def test_field_of_a_later_release_is_ignored() -> None:
    assert decode(fromTheFuture={"a": 1}) == decode()


def test_object_that_the_schema_now_forbids_still_decodes() -> None:
    """An object stored under an older schema must not stop a watch (the API server ratchets)."""
    cache = decode(
        image="not an image", waitSeconds=-1, mountPath="relative", workloadNamespaces=["NOT A NAME"]
    )
    assert cache.spec.wait_seconds == -1


@pytest.mark.parametrize(
    "wrong", [{"waitSeconds": "30"}, {"accessModes": "ReadWriteOnce"}, {"podTemplate": []}]
)
def test_wrong_type_is_refused_with_its_path(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError, match=rf"\$\.spec\.{next(iter(wrong))}"):
        decode(**wrong)


def test_manifests_of_first_users_lose_nothing(sample_dir) -> None:
    structs = {definition.kind: definition.struct for definition in DEFINITIONS}
    seen = 0
    for path in sorted((sample_dir / "manifests").glob("*.yaml")):
        for text in path.read_text().split("\n---\n"):
            document = msgspec.yaml.decode(text)
            if document["apiVersion"] == API_VERSION:
                decoded = msgspec.convert(document, structs[document["kind"]])
                assert sent(decoded) == document, path.name
                seen += 1
    assert seen
