"""Where registry credentials come from: docker's and podman's files, and the helpers that these name.

Looked up only once a registry asks for credentials, so that a broken helper is never in the way of a host
that asks for none.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from gkm.images.auth_config import (
    AuthConfig,
    Credentials,
    decode_auth_config,
    entry_credentials,
    find_entry,
    find_helper,
)
from gkm.images.credential_helper import ask_helper
from gkm.images.errors import CredentialsError


class CredentialSource(Protocol):
    """Finds credentials for a repository."""

    async def find(self, host: str, repository: str) -> Credentials | None:
        """The credentials for ``host/repository``; None where there are none.

        Raises:
            CredentialsError: what is configured cannot be used.
        """
        ...


class NoCredentials:
    """Finds none: every registry is read as anyone may."""

    async def find(self, host: str, repository: str) -> Credentials | None:
        """None."""
        del host, repository
        return None


class FileCredentials:
    """Credentials from files, the first that has any; a helper that a file names goes before its entries."""

    def __init__(self, files: Sequence[Path], environ: Mapping[str, str]) -> None:
        self._files = tuple(files)
        self._environ = environ

    async def find(self, host: str, repository: str) -> Credentials | None:
        """See `CredentialSource.find`."""
        for file in self._files:
            config = await asyncio.to_thread(_read, file)
            if config is None:
                continue
            helper = find_helper(config, host, repository)
            if helper and (found := await ask_helper(helper, host, self._environ)):
                return found
            if entry := find_entry(config, host, repository):
                return entry_credentials(entry, f"{file}, entry for {host}")
        return None


def environment_credentials(environ: Mapping[str, str]) -> FileCredentials:
    """``$REGISTRY_AUTH_FILE`` where it is set, then docker's own file (``$DOCKER_CONFIG``, ``~/.docker``)."""
    files = []
    if named := environ.get("REGISTRY_AUTH_FILE"):
        files.append(Path(named))
    directory = environ.get("DOCKER_CONFIG")
    if directory or environ.get("HOME"):
        files.append(Path(directory or Path(environ["HOME"]) / ".docker") / "config.json")
    return FileCredentials(files, environ)


def _read(file: Path) -> AuthConfig | None:
    try:
        data = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CredentialsError(f"cannot read the credentials file {file}: {error.strerror}") from error
    return decode_auth_config(data, str(file))
