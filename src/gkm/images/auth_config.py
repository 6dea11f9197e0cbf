"""The credentials files of docker and podman (docker's config.json reference, containers-auth.json(5)).

Pure: bytes in, credentials or the name of a helper out.
"""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from gkm.images.errors import CredentialsError


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who to be at a registry. Secrets stay out of `repr`."""

    username: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    """An OAuth2 refresh token, given instead of a password."""


class AuthEntry(msgspec.Struct, frozen=True):
    """One registry's entry under ``auths``."""

    auth: str = ""
    """Base64 of ``user:password``."""
    username: str = ""
    password: str = ""
    identitytoken: str = ""


class AuthConfig(msgspec.Struct, frozen=True):
    """A ``config.json`` or ``auth.json``, as far as it concerns credentials.

    A Kubernetes pull secret of type ``kubernetes.io/dockerconfigjson`` holds the same document.
    """

    auths: dict[str, AuthEntry | None] = {}
    cred_helpers: dict[str, str] = msgspec.field(default={}, name="credHelpers")
    creds_store: str = msgspec.field(default="", name="credsStore")


def decode_auth_config(data: bytes, name: str) -> AuthConfig:
    """Read such a document; `name` says in errors where it came from.

    Raises:
        CredentialsError: it is not what docker or podman write.
    """
    try:
        return msgspec.json.decode(data or b"{}", type=AuthConfig)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # The text of a JSON error shows types and paths, never values.
        raise CredentialsError(f"{name} is not a credentials file: {error}; correct or remove it") from error


def matching_keys(host: str, repository: str) -> Iterator[str]:
    """The keys under which credentials for ``host/repository`` may stand, the most specific first."""
    path = f"{host}/{repository}"
    while "/" in path:
        yield path
        path = path.rpartition("/")[0]
    yield host


def find_entry(config: AuthConfig, host: str, repository: str) -> AuthEntry | None:
    """The entry of `config` whose key is the longest prefix of ``host/repository``.

    Empty entries don't count: docker writes one beside a credential store, to remember its logins.
    """
    entries = {
        _plain_key(key): entry for key, entry in config.auths.items() if entry not in (None, AuthEntry())
    }
    return next((entries[key] for key in matching_keys(host, repository) if key in entries), None)


def find_helper(config: AuthConfig, host: str, repository: str) -> str | None:
    """The credential helper that `config` names for the host, or the store it names for all hosts."""
    for key in matching_keys(host, repository):
        if key in config.cred_helpers:
            return config.cred_helpers[key]
    return config.creds_store or None


def _plain_key(key: str) -> str:
    """A key of ``auths`` as ``host[/path]``: docker once wrote URLs with an API version."""
    plain = key.removeprefix("https://").removeprefix("http://").rstrip("/")
    for version in ("/v1", "/v2"):
        plain = plain.removesuffix(version)
    return "docker.io" if plain == "index.docker.io" else plain


def entry_credentials(entry: AuthEntry, name: str) -> Credentials:
    """What `entry` says; `name` says in errors where it stands.

    Raises:
        CredentialsError: ``auth`` is not base64 of ``user:password``.
    """
    username, password = entry.username, entry.password
    if entry.auth:
        try:
            text = base64.b64decode(entry.auth, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise CredentialsError(f"{name}: 'auth' is not base64; log in again") from error
        username, separator, password = text.partition(":")
        if not separator:
            raise CredentialsError(f"{name}: 'auth' is not base64 of user:password; log in again")
        # Some writers of the file pad with NUL bytes, and docker strips them.
        password = password.strip("\0")
    return Credentials(username, password, entry.identitytoken)
