"""Taking up a broken stream where it stood: range requests (RFC 9110 §14) for bytes that never change.

Pure: `gkm.images.download` does the asking.
"""

import re
from collections.abc import Mapping

from gkm.images.errors import ProtocolError, SizeMismatchError
from gkm.images.media import Descriptor

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")

OK, PARTIAL, PRECONDITION_FAILED, NOT_SATISFIABLE = 200, 206, 412, 416


def range_headers(position: int, etag: str | None) -> dict[str, str]:
    """The headers that ask for the bytes from `position` on, of the same object if its `etag` is known.

    A weak ETag is of no use with If-Match (RFC 9110 §13.1.1) and must not be passed.
    """
    if not position:
        return {}
    return {"range": f"bytes={position}-", **({"if-match": etag} if etag else {})}


def strong_etag(headers: Mapping[str, str]) -> str | None:
    """The response's ETag, unless it is a weak one."""
    etag = headers.get("etag")
    return etag if etag and not etag.startswith("W/") else None


def bytes_to_skip(status: int, headers: Mapping[str, str], position: int, descriptor: Descriptor) -> int:
    """How many of the response's first bytes are here already, when `position` bytes of the blob are.

    A server that knows no ranges answers 200 and starts from the beginning.

    Raises:
        SizeMismatchError: the headers tell of another size than the descriptor's.
        ProtocolError: an answer to another range than the one asked for.
    """
    if status == OK:
        _check_total(headers.get("content-length"), descriptor)
        return position
    if status == NOT_SATISFIABLE:
        raise SizeMismatchError(
            f"{descriptor.digest} has no byte {position}, of {descriptor.size} promised: push it again"
        )
    match = _CONTENT_RANGE.fullmatch(headers.get("content-range", ""))
    if status != PARTIAL or match is None or int(match[1]) > position or int(match[2]) < position:
        raise ProtocolError(
            f"asked for {descriptor.digest} from byte {position} on, the registry answered {status} with "
            f"range {headers.get('content-range')!r}"
        )
    _check_total(match[3], descriptor)
    return position - int(match[1])


def _check_total(text: str | None, descriptor: Descriptor) -> None:
    if text is not None and text.isdecimal() and int(text) != descriptor.size:
        raise SizeMismatchError(
            f"{descriptor.digest} has {text} bytes where {descriptor.size} were promised: push it again"
        )
