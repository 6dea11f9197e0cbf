"""Pull secrets are reduced to one registry, and nothing in them is run."""

import base64
import json

import pytest

from gkm.images.reference import RegistryReference
from gkm.kube.objects import ObjectMeta
from gkm.operator.objects import Secret
from gkm.operator.pull_secrets import PullSecretError, credentials_in, reduce_secrets

IMAGE = RegistryReference("registry.test", "team/kernels", "v1")


def entry(user: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:pass".encode()).decode()}


def secret(document: object, key: str = ".dockerconfigjson", name: str = "pull") -> Secret:
    data = {key: base64.b64encode(json.dumps(document).encode()).decode()}
    return Secret(metadata=ObjectMeta(name=name, namespace="team"), data=data)


def test_only_the_entry_for_the_registry_is_left() -> None:
    document = {"auths": {"registry.test": entry("me"), "other.test": entry("you")}, "credsStore": "evil"}
    assert json.loads(reduce_secrets([secret(document)], IMAGE)) == {"auths": {"registry.test": entry("me")}}


def test_the_longest_path_wins_and_the_old_form_is_read() -> None:
    document = {"registry.test": entry("me"), "registry.test/team": entry("team")}
    assert json.loads(reduce_secrets([secret(document, ".dockercfg")], IMAGE)) == {
        "auths": {"registry.test": entry("team")}
    }


def test_the_first_secret_that_serves_is_taken() -> None:
    useless, useful = (
        secret({"auths": {"other.test": entry("x")}}),
        secret({"auths": {"registry.test": entry("y")}}),
    )
    assert entry("y")["auth"].encode() in reduce_secrets([useless, useful], IMAGE)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (secret({"auths": {}}), "no credentials for registry.test"),
        (secret({"credHelpers": {"registry.test": "evil"}, "credsStore": "evil"}), "no credentials"),
        (secret({}, "password"), "has no .dockerconfigjson"),
        (secret([]), "is not a credentials file"),
        (Secret(metadata=ObjectMeta(name="s"), data={".dockerconfigjson": "%%%"}), "is not base64"),
    ],
)
def test_a_secret_of_no_use_is_refused_by_name(given: Secret, says: str) -> None:
    with pytest.raises(PullSecretError, match=says) as caught:
        reduce_secrets([given], IMAGE)
    assert "pass" not in str(caught.value)


async def test_credentials_are_for_their_registry_alone() -> None:
    source = credentials_in(reduce_secrets([secret({"auths": {"registry.test": entry("me")}})], IMAGE), IMAGE)
    found = await source.find("registry.test", "team/kernels")
    assert found is not None
    assert (found.username, found.password) == ("me", "pass")
    assert await source.find("cdn.test", "team/kernels") is None
