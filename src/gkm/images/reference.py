"""What people write to name an image: ``HOST/REPO[:TAG][@DIGEST]`` or ``oci:DIR[:TAG][@DIGEST]``.

The grammar of names and tags is distribution-spec's ("Pulling manifests"); that of hosts is RFC 3986's, with
Docker's rule that a first part without a dot, a colon and not ``localhost`` is no host. GKM guesses no host:
which registry answers must not depend on whose machine asks.
"""

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from gkm.base.digests import InvalidDigestError, check_digest
from gkm.images.errors import InvalidReferenceError

DEFAULT_TAG = "latest"
"""What a reference without tag and digest means, for every client that people know."""

_LAYOUT_PREFIX = "oci:"
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_LIKE_DIGEST = re.compile(r"sha256:[^:/]*")
_PART = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\[\]:]+)(?::(?P<port>[0-9]{1,5}))?")
_LONGEST_NAME = 255
_EXAMPLE = "HOST/REPO[:TAG][@DIGEST] (quay.io/team/cache:v1) or oci:DIR[:TAG] (oci:./images:v1)"


@dataclass(frozen=True, slots=True)
class RegistryReference:
    """An image in a registry. `tag` is None only where `digest` is given."""

    host: str
    """Host name or address, with ``:port`` where one was written, in lower case."""
    repository: str
    tag: str | None = None
    digest: str | None = None

    def __str__(self) -> str:
        return f"{self.host}/{self.repository}{_suffix(self.tag, self.digest)}"

    @property
    def tag_to_write(self) -> str | None:
        """The tag that writing to this reference moves; None where it names a digest only."""
        return self.tag


@dataclass(frozen=True, slots=True)
class LayoutReference:
    """An image in an OCI layout directory; without tag and digest, the only one there."""

    directory: Path
    tag: str | None = None
    digest: str | None = None

    def __str__(self) -> str:
        suffix = _suffix(self.tag, self.digest)
        directory = str(self.directory)
        # What follows the last colon of a directory's own name would be read back as a tag.
        closing = "/" if ":" in self.directory.name and self.tag is None else ""
        return f"{_LAYOUT_PREFIX}{directory}{closing}{suffix}"

    @property
    def tag_to_write(self) -> str | None:
        """The tag that writing to this reference moves; None where it names a digest only."""
        return self.tag or (None if self.digest else DEFAULT_TAG)


Reference: TypeAlias = RegistryReference | LayoutReference


def parse_reference(text: str) -> Reference:
    """Read what a person wrote. ``str()`` of the result is its canonical text, which reads back as equal.

    A registry reference without tag and digest gets the tag ``latest``, and Docker Hub's own names get the
    ``library/`` that its API knows them by, as every other client has it.

    Raises:
        InvalidReferenceError: the text names no image; the message says which part is wrong.
    """
    if "\0" in text:
        raise InvalidReferenceError(f"{text!r} has a NUL in it: expected {_EXAMPLE}")
    rest, digest = _split_digest(text)
    if rest.startswith(_LAYOUT_PREFIX):
        return _parse_layout(text, rest.removeprefix(_LAYOUT_PREFIX), digest)
    scheme, separator, _ = rest.partition("://")
    if separator:
        raise InvalidReferenceError(
            f"{text!r} begins with {scheme!r}: write the image without it, as {_EXAMPLE}"
        )
    return _parse_registry(text, rest, digest)


def _split_digest(text: str) -> tuple[str, str | None]:
    rest, separator, digest = text.rpartition("@")
    # A layout's directory may have an "@" of its own, so what follows must look meant as a digest.
    if not separator or (text.startswith(_LAYOUT_PREFIX) and not _LIKE_DIGEST.fullmatch(digest)):
        return text, None
    try:
        return rest, check_digest(digest)
    except InvalidDigestError as error:
        raise InvalidReferenceError(f"in {text!r}, {error}") from error


def _parse_layout(text: str, rest: str, digest: str | None) -> LayoutReference:
    directory, separator, tag = rest.rpartition(":")
    if not separator or "/" in tag:
        directory, tag = rest, ""
    elif _TAG.fullmatch(tag) is None:
        raise InvalidReferenceError(
            f"in {text!r}, {tag!r} is not a tag: letters, digits, '_', '.', '-', at most 128; "
            "end a directory whose name has a colon with '/'"
        )
    if not directory:
        raise InvalidReferenceError(f"{text!r} names no directory: expected oci:DIR[:TAG]")
    return LayoutReference(Path(directory), tag or None, digest)


def _parse_registry(text: str, rest: str, digest: str | None) -> RegistryReference:
    if rest != rest.strip():
        raise InvalidReferenceError(f"{text!r} has blanks around it: expected {_EXAMPLE}")
    host, separator, path = rest.partition("/")
    if not separator or not _is_host_like(host):
        raise InvalidReferenceError(f"{text!r} names no registry host: expected {_EXAMPLE}")
    host = _check_host(text, host.lower())
    path, separator, tag = path.partition(":")
    if separator and _TAG.fullmatch(tag) is None:
        raise InvalidReferenceError(
            f"in {text!r}, {tag!r} is not a tag: letters, digits, '_', '.', '-', at most 128"
        )
    for part in path.split("/"):
        if _PART.fullmatch(part) is None:
            raise InvalidReferenceError(
                f"in {text!r}, {part!r} cannot be part of a repository name: lower-case letters and digits, "
                "with '.', '_' or '-' between them"
            )
    if host in ("docker.io", "index.docker.io"):
        host, path = "docker.io", path if "/" in path else f"library/{path}"
    if len(host) + 1 + len(path) > _LONGEST_NAME:
        raise InvalidReferenceError(
            f"{text!r} is too long: host and repository have at most {_LONGEST_NAME} characters"
        )
    return RegistryReference(host, path, tag or (None if digest else DEFAULT_TAG), digest)


def _is_host_like(host: str) -> bool:
    return "." in host or ":" in host or host.lower() == "localhost"


def _check_host(text: str, host: str) -> str:
    match = _HOST.fullmatch(host)
    if match is None or not _is_host_name(match["name"]):
        raise InvalidReferenceError(f"in {text!r}, {host!r} is not a host, nor a host with a port")
    if match["port"] is not None and not 0 < int(match["port"]) < 65536:
        raise InvalidReferenceError(f"in {text!r}, {match['port']} is not a port: expected 1 to 65535")
    return host


def _is_host_name(name: str) -> bool:
    if name.startswith("["):
        try:
            ipaddress.IPv6Address(name[1:-1])
        except ValueError:
            return False
        return True
    return all(_LABEL.fullmatch(label) for label in name.split("."))


def _suffix(tag: str | None, digest: str | None) -> str:
    return (f":{tag}" if tag else "") + (f"@{digest}" if digest else "")
