"""The container of vLLM's binary artifacts: checksummed, length-prefixed, and never unpickled.

What `torch._inductor.CompiledArtifact.save(format="binary")` writes, read off real artifacts: a big-endian
CRC-32 of all that follows, then fields, each a big-endian 64-bit length and that many bytes: torch's key (a
SHA-256), the artifact's key in base64, the payload.
"""

import struct
import zlib
from dataclasses import dataclass

_CRC = struct.Struct(">I")
_LENGTH = struct.Struct(">Q")
_TORCH_KEY_SIZE = 32


@dataclass(frozen=True, slots=True)
class Artifact:
    """The header facts of a whole artifact."""

    torch_key: str
    """Torch's key in hex: the hash of the sources and build that wrote it, which it must equal to load."""


def read_artifact(data: bytes) -> Artifact | None:
    """The facts of the artifact `data`; None where it is of another layout, truncated or damaged."""
    if len(data) < _CRC.size + _LENGTH.size + _TORCH_KEY_SIZE:
        return None
    (checksum,) = _CRC.unpack_from(data)
    (length,) = _LENGTH.unpack_from(data, _CRC.size)
    if length != _TORCH_KEY_SIZE or zlib.crc32(memoryview(data)[_CRC.size :]) != checksum:
        return None
    start = _CRC.size + _LENGTH.size
    return Artifact(torch_key=data[start : start + _TORCH_KEY_SIZE].hex())
