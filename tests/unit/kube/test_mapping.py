"""Which keys are worked on because of a change."""

from gkm.kube.mapping import any_of, field_changed, generation_changed, itself, mapped, owner
from gkm.kube.objects import ConfigMap, Key, ObjectMeta, OwnerReference, PartialObject, Pod, PodStatus
from gkm.kube.resources import NODES, Resource
from gkm.kube.store import Change

SETS = Resource(PartialObject, "apps", "v1", "ReplicaSet", "replicasets")


def pod(owners: tuple[OwnerReference, ...] = (), generation: int = 1, phase: str = "") -> Pod:
    metadata = ObjectMeta(name="p", namespace="ns", generation=generation, owner_references=owners)
    return Pod(metadata=metadata, status=PodStatus(phase=phase))


def by(
    name: str, kind: str = "ReplicaSet", api: str = "apps/v1", controller: bool | None = True
) -> OwnerReference:
    return OwnerReference(api_version=api, kind=kind, name=name, uid="u", controller=controller)


def test_itself() -> None:
    assert itself(Change(None, pod())) == [Key("ns", "p")]
    assert itself(Change(pod(), None)) == [Key("ns", "p")]


def test_owners_before_and_after_a_change_are_both_concerned() -> None:
    assert set(owner(SETS)(Change(pod((by("a"),)), pod((by("b"),))))) == {Key("ns", "a"), Key("ns", "b")}
    assert set(owner(SETS)(Change(pod((by("a"),)), None))) == {Key("ns", "a")}


def test_only_the_managing_owner_of_that_kind_in_any_version() -> None:
    owners = (
        by("old", api="apps/v1beta1"),
        by("other", kind="StatefulSet"),
        by("namesake", api="example.com/v1"),
        by("mere", controller=None),
    )
    assert set(owner(SETS)(Change(None, pod(owners)))) == {Key("ns", "old")}
    assert set(owner(SETS, controller_only=False)(Change(None, pod(owners)))) == {
        Key("ns", "old"),
        Key("ns", "mere"),
    }


def test_a_cluster_scoped_owner_has_no_namespace() -> None:
    owners = (by("n1", kind="Node", api="v1"),)
    assert set(owner(NODES)(Change(None, pod(owners)))) == {Key("", "n1")}


def test_a_custom_mapping_sees_both_states() -> None:
    keys = mapped(lambda obj: [Key("", value) for value in (obj.data or {}).values()])
    change = Change(ConfigMap(data={"node": "a"}), ConfigMap(data={"node": "b"}))
    assert set(keys(change)) == {Key("", "a"), Key("", "b")}


def test_predicates() -> None:
    phase = field_changed(lambda p: p.status.phase)
    same = Change(pod(), pod())
    assert not generation_changed(same)
    assert not phase(same)
    assert generation_changed(Change(pod(), pod(generation=2)))
    assert phase(Change(pod(), pod(phase="Running")))
    assert generation_changed(Change(None, pod()))
    assert phase(Change(pod(), None))
    assert any_of(generation_changed, phase)(Change(pod(), pod(phase="Running")))
    assert not any_of(generation_changed, phase)(same)
