"""Pull secrets: from what a user stores, just the entry for one registry, which is all that nodes get.

Only what a secret says outright is read: the credential helpers and stores that such a document may name are
programs, and a user's secret must not start any in the operator.
"""

import base64
import binascii
from collections.abc import Iterable

import msgspec

from gkm.base.errors import GKMError
from gkm.images.auth_config import Credentials, decode_auth_config, entry_credentials, find_entry
from gkm.images.errors import CredentialsError
from gkm.images.reference import RegistryReference
from gkm.operator.objects import Secret

DOCKER_CONFIG = ".dockerconfigjson"
"""The key of a Secret of type ``kubernetes.io/dockerconfigjson``."""
DOCKER_CONFIG_TYPE = "kubernetes.io/dockerconfigjson"
_OLD_CONFIG = ".dockercfg"
"""The key of a Secret of type ``kubernetes.io/dockercfg``: the entries alone."""


class PullSecretError(GKMError):
    """A pull secret of the cache is missing, or of no use for its registry."""

    reason = "PullSecretUnusable"


class HostCredentials:
    """Credentials for one registry and no other: nothing is found for a host that it redirects to."""

    def __init__(self, host: str, credentials: Credentials | None) -> None:
        self._host = host
        self._credentials = credentials

    async def find(self, host: str, repository: str) -> Credentials | None:
        """See `gkm.images.credentials.CredentialSource.find`."""
        del repository
        return self._credentials if host == self._host else None


def reduce_secrets(secrets: Iterable[Secret], image: RegistryReference) -> bytes:
    """A ``.dockerconfigjson`` with one entry, for the registry of `image`: the first that `secrets` have.

    Raises:
        PullSecretError: a secret cannot be read, or none has an entry for that registry.
    """
    names = []
    for secret in secrets:
        name = f"secret {secret.metadata.namespace}/{secret.metadata.name}"
        names.append(name)
        document = _document(secret, name)
        try:
            entry = find_entry(decode_auth_config(document, name), image.host, image.repository)
        except CredentialsError as error:
            raise PullSecretError(str(error)) from error
        if entry is not None:
            plain = {key: value for key, value in msgspec.to_builtins(entry).items() if value}
            return msgspec.json.encode({"auths": {image.host: plain}})
    raise PullSecretError(
        f"{', '.join(names)}: no credentials for {image.host} there; "
        "add them, or leave spec.imagePullSecrets out for a public registry"
    )


def credentials_in(document: bytes, image: RegistryReference) -> HostCredentials:
    """What `reduce_secrets` found, for our own requests.

    Raises:
        PullSecretError: the entry's ``auth`` is malformed.
    """
    name = "the pull secret"
    entry = find_entry(decode_auth_config(document, name), image.host, image.repository)
    try:
        found = entry_credentials(entry, f"{name}'s entry for {image.host}") if entry else None
    except CredentialsError as error:
        raise PullSecretError(str(error)) from error
    return HostCredentials(image.host, found)


def _document(secret: Secret, name: str) -> bytes:
    data = secret.data or {}
    key = DOCKER_CONFIG if DOCKER_CONFIG in data else _OLD_CONFIG
    if key not in data:
        raise PullSecretError(
            f"{name} has no {DOCKER_CONFIG}: make it with `kubectl create secret docker-registry`"
        )
    try:
        document = base64.b64decode(data[key], validate=True)
    except binascii.Error as error:
        raise PullSecretError(f"{name}: {key} is not base64") from error
    return b'{"auths":' + document + b"}" if key == _OLD_CONFIG else document
