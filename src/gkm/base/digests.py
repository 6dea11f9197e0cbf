"""Content digests as OCI writes them: ``sha256:<64 hex digits>`` (OCI image-spec, descriptor.md, "Digests").

GKM makes and accepts sha256 alone: it is the only algorithm every registry must support, and one algorithm
leaves no choice to an attacker.
"""

import hashlib
import re
from pathlib import Path

from gkm.base.errors import GKMError

_PATTERN = re.compile(r"sha256:[0-9a-f]{64}")
_CHUNK = 1 << 20


class InvalidDigestError(GKMError):
    """Text that should be a sha256 digest is not one."""


def check_digest(text: str) -> str:
    """Return `text` if it is a well-formed sha256 digest.

    Raises:
        InvalidDigestError: it is not.
    """
    if _PATTERN.fullmatch(text) is None:
        raise InvalidDigestError(f"{text!r} is not a digest: expected 'sha256:' and 64 lower-case hex digits")
    return text


def digest_bytes(data: bytes | bytearray | memoryview) -> str:
    """The digest of `data`."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest_file(path: Path) -> str:
    """The digest of the file at `path`, read in pieces. Raises `OSError` like `open`."""
    hasher = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            hasher.update(chunk)
    return "sha256:" + hasher.hexdigest()
