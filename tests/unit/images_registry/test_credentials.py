"""Which entry of which file is taken, and what helpers may answer."""

import base64
import json
import os

import pytest

from gkm.images.auth_config import Credentials, decode_auth_config, entry_credentials, find_entry, find_helper
from gkm.images.credential_helper import ask_helper
from gkm.images.credentials import environment_credentials
from gkm.images.errors import CredentialsError


def auth(user, password="secret"):
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


def config(**fields):
    return decode_auth_config(json.dumps(fields).encode(), "config.json")


def user_for(auths, host, repository):
    entry = find_entry(config(auths=auths), host, repository)
    return entry and entry_credentials(entry, "config.json").username


def test_the_longest_matching_path_wins():
    auths = {"quay.io": auth("host"), "quay.io/team": auth("team"), "quay.io/team/cache": auth("cache")}
    assert user_for(auths, "quay.io", "team/cache") == "cache"
    assert user_for(auths, "quay.io", "team/other") == "team"
    assert user_for(auths, "quay.io", "team/cache/deeper") == "cache"
    assert user_for(auths, "quay.io", "teamwork/cache") == "host"
    assert user_for(auths, "quay.io:443", "team/cache") is None


@pytest.mark.parametrize(
    "key", ["quay.io", "https://quay.io", "https://quay.io/", "https://quay.io/v2/", "http://quay.io/v1/"]
)
def test_urls_of_old_are_hosts(key):
    assert user_for({key: auth("a")}, "quay.io", "x") == "a"


def test_docker_hub_has_a_key_of_its_own():
    assert user_for({"https://index.docker.io/v1/": auth("a")}, "docker.io", "library/x") == "a"


def test_an_empty_entry_says_nothing():
    assert user_for({"quay.io/team": {}, "quay.io": auth("a")}, "quay.io", "team/x") == "a"
    assert user_for({"quay.io/team": None, "quay.io": auth("a")}, "quay.io", "team/x") == "a"


def test_a_helper_for_the_host_goes_before_the_store():
    both = config(credHelpers={"quay.io": "one"}, credsStore="two")
    assert find_helper(both, "quay.io", "x") == "one"
    assert find_helper(both, "ghcr.io", "x") == "two"
    assert find_helper(config(), "quay.io", "x") is None


def test_all_forms_of_an_entry_are_read():
    entries = config(auths={"a": {"username": "u", "password": "p"}, "b": {"identitytoken": "t"}}).auths
    assert entry_credentials(entries["a"], "") == Credentials("u", "p")
    assert entry_credentials(entries["b"], "") == Credentials(identity_token="t")
    colons = find_entry(config(auths={"c": auth("u", "p:q")}), "c", "x")
    assert entry_credentials(colons, "") == Credentials("u", "p:q")


@pytest.mark.parametrize(
    "text", ["!!", base64.b64encode(b"no colon").decode(), base64.b64encode(b"\xff:").decode()]
)
def test_an_entry_that_cannot_be_read_is_named(text):
    entry = find_entry(config(auths={"quay.io": {"auth": text}}), "quay.io", "x")
    with pytest.raises(CredentialsError, match=r"config\.json"):
        entry_credentials(entry, "config.json")


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"auths": 1}', b'{"auths": {"a": {"auth": 1}}}', b"\xff"])
def test_a_file_that_is_none_is_named(data):
    with pytest.raises(CredentialsError, match=r"config\.json is not a credentials file"):
        decode_auth_config(data, "config.json")


def test_secrets_do_not_show():
    shown = repr(Credentials("user", "hush", "hush"))
    assert "user" in shown
    assert "hush" not in shown


def write(directory, **fields):
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(fields))
    return directory


def helper(directory, script, name="test"):
    program = directory / f"docker-credential-{name}"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"PATH": f"{directory}:{os.environ['PATH']}"}


async def test_files_are_asked_in_order(tmp_path):
    (tmp_path / "home").mkdir()
    write(tmp_path / "home/.docker", auths={"quay.io": auth("docker"), "ghcr.io": auth("g")})
    (tmp_path / "auth.json").write_text(json.dumps({"auths": {"quay.io": auth("podman")}}))
    environ = {"HOME": str(tmp_path / "home")}
    found = await environment_credentials(environ).find("quay.io", "x")
    assert found.username == "docker"
    environ["REGISTRY_AUTH_FILE"] = str(tmp_path / "auth.json")
    source = environment_credentials(environ)
    assert (await source.find("quay.io", "x")).username == "podman"
    assert (await source.find("ghcr.io", "x")).username == "g"
    assert await source.find("example.com", "x") is None


async def test_no_files_are_no_credentials(tmp_path):
    assert await environment_credentials({"HOME": str(tmp_path)}).find("quay.io", "x") is None
    assert await environment_credentials({}).find("quay.io", "x") is None


async def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    (tmp_path / "config.json").mkdir()
    with pytest.raises(CredentialsError, match=r"config\.json"):
        await environment_credentials({"DOCKER_CONFIG": str(tmp_path)}).find("quay.io", "x")


async def test_a_store_that_knows_nothing_leaves_it_to_the_entries(tmp_path):
    environ = helper(tmp_path, "echo credentials not found in native keychain; exit 1")
    write(tmp_path, auths={"quay.io": auth("entry")}, credsStore="test")
    source = environment_credentials({**environ, "DOCKER_CONFIG": str(tmp_path)})
    assert (await source.find("quay.io", "x")).username == "entry"


async def test_helpers_are_asked_by_dockers_key_for_docker_hub(tmp_path):
    environ = helper(tmp_path, """read -r key; printf '{"Username": "%s", "Secret": "s"}' "$key" """)
    assert await ask_helper("test", "docker.io", environ) == Credentials("https://index.docker.io/v1/", "s")
    assert await ask_helper("test", "quay.io", environ) == Credentials("quay.io", "s")


async def test_a_helper_may_give_an_identity_token(tmp_path):
    environ = helper(tmp_path, """cat >/dev/null; echo '{"Username": "<token>", "Secret": "s"}'""")
    assert await ask_helper("test", "quay.io", environ) == Credentials(identity_token="s")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo the vault is sealed >&2; exit 3", "the vault is sealed"),
        ("echo nonsense", "no readable answer"),
    ],
)
async def test_a_helper_that_fails_is_named(tmp_path, script, words):
    with pytest.raises(CredentialsError, match=f"docker-credential-test.*{words}"):
        await ask_helper("test", "quay.io", helper(tmp_path, script))


@pytest.mark.parametrize("name", ["absent", "../test", "", "a b"])
async def test_a_helper_that_cannot_be_started_is_named(tmp_path, name):
    with pytest.raises(CredentialsError, match="credential helper"):
        await ask_helper(name, "quay.io", {"PATH": str(tmp_path)})
