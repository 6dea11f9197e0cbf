"""Nothing leaves this room under a digest that it does not have."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator

from gkm.base.digests import digest_bytes
from gkm.images.errors import DigestMismatchError, SizeMismatchError
from gkm.images.media import Descriptor


async def verified(chunks: AsyncIterator[bytes], descriptor: Descriptor) -> AsyncGenerator[bytes, None]:
    """Pass on `chunks` while counting and hashing them against `descriptor`.

    At most ``descriptor.size`` bytes are taken from a source that offers more, and none of an excess is
    passed on. The digest is known only at the end: believe the bytes when the iteration has ended.

    Raises:
        SizeMismatchError: the source has more bytes than promised, or ended before.
        DigestMismatchError: the bytes have another digest.
    """
    hasher = hashlib.sha256()
    left = descriptor.size
    async for chunk in chunks:
        if len(chunk) > left:
            raise _too_long(descriptor)
        left -= len(chunk)
        hasher.update(chunk)
        if chunk:
            yield chunk
    if left:
        raise SizeMismatchError(
            f"{descriptor.digest} ended after {descriptor.size - left} of {descriptor.size} bytes: "
            "what is stored there is damaged; push it again"
        )
    _compare(f"sha256:{hasher.hexdigest()}", descriptor)


def check_bytes(data: bytes, descriptor: Descriptor) -> bytes:
    """Return `data` if it is what `descriptor` says. Raises like `verified`."""
    if len(data) > descriptor.size:
        raise _too_long(descriptor)
    if len(data) < descriptor.size:
        raise SizeMismatchError(
            f"{descriptor.digest} has {len(data)} bytes where {descriptor.size} were promised: push it again"
        )
    _compare(digest_bytes(data), descriptor)
    return data


def _too_long(descriptor: Descriptor) -> SizeMismatchError:
    return SizeMismatchError(
        f"{descriptor.digest} has more than the {descriptor.size} bytes promised: "
        "what is stored there is not what was pushed; push it again"
    )


def _compare(digest: str, descriptor: Descriptor) -> None:
    if digest != descriptor.digest:
        raise DigestMismatchError(
            f"asked for {descriptor.digest}, the bytes that came are {digest}: "
            "what is stored there was changed or damaged; push it again, and ask who can write there"
        )
