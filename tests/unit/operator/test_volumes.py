"""Claims and volumes: driven against a small model of Kubernetes' binder, and never at others' cost."""

from hypothesis import given
from hypothesis import strategies as st

from gkm.kube.objects import Key, ObjectMeta, PartialObject
from gkm.operator.objects import CLAIMS, Claim, ClaimReference, ClaimSpec, Volume, VolumeSpec, VolumeStatus
from gkm.operator.volumes import (
    Create,
    Delete,
    Place,
    Stage,
    claim_body,
    deliver,
    is_ours,
    labels,
    volume_body,
    volume_name,
    withdraw,
)
from support.cache_facts import UID

KEY = Key("team", "kernels")
NAME = volume_name(UID, "team")
THERE = PartialObject(metadata=ObjectMeta(name="team"))
LEAVING = PartialObject(metadata=ObjectMeta(name="team", deletion_timestamp="2026-01-01T00:00:00Z"))


def claim(uid: str, *, ours: bool = True, leaving: bool = False, phase: str = "Pending") -> Claim:
    metadata = ObjectMeta(
        name="kernels", namespace="team", uid=uid, labels=labels(UID) if ours else None,
        deletion_timestamp="2026-01-01T00:00:00Z" if leaving else None,
    )  # fmt: skip
    return Claim(
        metadata=metadata, spec=ClaimSpec(volume_name=NAME if ours else ""), status=VolumeStatus(phase=phase)
    )


def volume(claim_uid: str, *, leaving: bool = False, phase: str = "Bound") -> Volume:
    return Volume(
        metadata=ObjectMeta(
            name=NAME, uid="v", labels=labels(UID),
            deletion_timestamp="2026-01-01T00:00:00Z" if leaving else None,
        ),
        spec=VolumeSpec(claim_ref=ClaimReference(namespace="team", name="kernels", uid=claim_uid)),
        status=VolumeStatus(phase=phase),
    )  # fmt: skip


_PLACES = st.builds(
    Place,
    namespace=st.just("team"),
    there=st.sampled_from([THERE, LEAVING, None]),
    claim=st.none() | st.builds(
        claim, st.sampled_from(["1", "2"]), ours=st.booleans(), leaving=st.booleans(),
        phase=st.sampled_from(["Pending", "Bound", "Lost"]),
    ),
    volume=st.none() | st.builds(
        volume, st.sampled_from(["1", "2", ""]), leaving=st.booleans(),
        phase=st.sampled_from(["Available", "Bound", "Released", "Failed"]),
    ),
)  # fmt: skip


def settle(place: Place) -> Place:
    """What Kubernetes makes of a place when nobody else acts: what leaves goes, what fits is bound."""
    found, made = place.claim, place.volume
    there = None if place.there is LEAVING else place.there
    if there is None:
        found = None
    if found is not None and found.metadata.deletion_timestamp:
        found = None
    if made is not None and made.metadata.deletion_timestamp:
        made = None
    reference = made.spec.claim_ref if made else None
    ours = found is not None and is_ours(found, UID)
    if made is not None and reference is not None and (reference.uid or (ours and found is not None)):
        holder = reference.uid or (found.metadata.uid if found else "")
        bound = found is not None and found.metadata.uid == holder
        made = volume(holder, phase="Bound" if bound else "Released")
        if found is not None and ours:
            found = claim(found.metadata.uid, phase="Bound" if bound else "Pending")
    return Place(place.namespace, there, found, made)


def act(place: Place, action: Create | Delete, fresh: str) -> Place:
    """`place` after one action that the API server accepted."""
    if isinstance(action, Create):
        if action.resource is CLAIMS:
            assert place.claim is None, "a claim of this name exists"
            return Place(place.namespace, place.there, claim(fresh), place.volume)
        assert place.volume is None, "a volume of this name exists"
        return Place(
            place.namespace,
            place.there,
            place.claim,
            volume(action.body["spec"]["claimRef"].get("uid", ""), phase="Available"),
        )
    if action.resource is CLAIMS:
        assert place.claim is not None
        assert is_ours(place.claim, UID), "another's claim was deleted"
        return Place(place.namespace, place.there, None, place.volume)
    return Place(place.namespace, place.there, place.claim, None)


@given(_PLACES)
def test_delivery_comes_to_rest_and_never_touches_a_foreign_claim(place: Place) -> None:
    for round_ in range(12):
        stage, actions = deliver(KEY, UID, place)
        assert not any(isinstance(a, Delete) and a.resource is CLAIMS for a in actions)
        for action in actions:
            place = act(place, action, f"fresh-{round_}")
        place = settle(place)
    stage, actions = deliver(KEY, UID, place)
    assert actions == []
    if place.there is None:
        assert (stage, place.volume) == (Stage.NO_NAMESPACE, None)
    elif place.claim is not None and not is_ours(place.claim, UID):
        assert (stage, place.volume) == (Stage.FOREIGN, None)
    else:
        assert stage is Stage.BOUND


@given(_PLACES)
def test_withdrawal_leaves_nothing_of_ours_and_everything_of_others(place: Place) -> None:
    foreign = place.claim if place.claim is not None and not is_ours(place.claim, UID) else None
    keeps = foreign is not None and not foreign.metadata.deletion_timestamp and place.there is THERE
    for _ in range(6):
        _, actions = withdraw(UID, place)
        for action in actions:
            assert isinstance(action, Delete)
            place = act(place, action, "")
        place = settle(place)
    assert withdraw(UID, place) == (Stage.GONE, [])
    assert place.volume is None
    assert (place.claim is not None) is keeps


def test_the_claim_goes_before_the_volume() -> None:
    _, actions = withdraw(UID, Place("team", THERE, claim("1", phase="Bound"), volume("1")))
    assert [a.resource for a in actions] == [CLAIMS]


def test_a_volume_is_for_one_claim_alone_and_says_no_digest() -> None:
    body = volume_body(KEY, UID, "team", "1")
    spec = body["spec"]
    assert spec["claimRef"] == {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "team", "name": "kernels", "uid": "1"
    }  # fmt: skip
    assert UID in body["metadata"]["name"]
    assert "sha256" not in str(body)
    assert spec["persistentVolumeReclaimPolicy"] == "Retain"
    assert spec["accessModes"] == ["ReadWriteMany", "ReadOnlyMany"]
    assert claim_body(KEY, UID, "team")["spec"]["storageClassName"] == ""


def test_a_namespaces_volume_names_differ_and_fit() -> None:
    longest = "n" * 63
    assert volume_name(UID, longest) != volume_name(UID, "n")
    assert len(volume_name(UID, longest)) <= 253
