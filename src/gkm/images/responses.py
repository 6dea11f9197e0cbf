"""What a registry's refusals mean (distribution-spec, "Error Codes"), and what a person does about each."""

import ssl

import httpx2
import msgspec

from gkm.images.errors import (
    BrokenStreamError,
    NotFoundError,
    ProtocolError,
    RefusedError,
    RegistryError,
    UnauthorizedError,
    UnavailableError,
    UntrustedCertificateError,
)

_MAX_ERROR_BYTES = 16 << 10


class _ErrorDetail(msgspec.Struct):
    code: str = ""
    message: str = ""


class _ErrorBody(msgspec.Struct):
    errors: list[_ErrorDetail] = []


async def read_bounded(response: httpx2.Response, limit: int, doing: str) -> bytes:
    """The body of `response`.

    Raises:
        ProtocolError: it has more than `limit` bytes.
        BrokenStreamError: it stopped in the middle.
    """
    data = bytearray()
    try:
        async for chunk in response.aiter_raw():
            data += chunk
            if len(data) > limit:
                raise ProtocolError(f"{doing}: the answer has more than {limit} bytes, which none may have")
    except httpx2.TransportError as error:
        raise broken_stream(error, doing) from error
    return bytes(data)


async def error_words(response: httpx2.Response) -> str:
    """What the body of a refusal says, shortened and fit to print; empty where it says nothing."""
    try:
        body = msgspec.json.decode(await read_bounded(response, _MAX_ERROR_BYTES, ""), type=_ErrorBody)
    except (RegistryError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    words = "; ".join(" ".join(filter(None, (e.code, e.message))) for e in body.errors)
    return "".join(c if c.isprintable() else "?" for c in words)[:300]


def status_error(status: int, doing: str, words: str, refusal: str = "") -> RegistryError:
    """The error for an HTTP `status`: what GKM was `doing` ("reading …"), and the server's own `words`.

    `refusal` says for 401 and 403 who was refused and what to do.
    """
    told = f" ({words})" if words else ""
    if status in (401, 403):
        return UnauthorizedError(f"{doing}: refused with status {status}{told}: {refusal or 'log in'}")
    if status == 404:
        return NotFoundError(f"{doing}: not there{told}; check the name, the tag and the digest")
    if status == 429:
        return UnavailableError(f"{doing}: too many requests{told}; wait, or log in for a higher limit")
    if status >= 500:
        return UnavailableError(f"{doing}: the registry failed with status {status}{told}; try again later")
    return RefusedError(f"{doing}: refused with status {status}{told}")


def transport_error(error: httpx2.TransportError, doing: str) -> UnavailableError:
    """The error for a request that got no response."""
    causes = list(_causes(error))
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return UntrustedCertificateError(
            f"{doing}: {causes[-1]}; if the registry has an authority of its own, "
            "give its certificate with --ca FILE"
        )
    if any(isinstance(cause, ssl.SSLError) and cause.reason == "WRONG_VERSION_NUMBER" for cause in causes):
        return UnavailableError(
            f"{doing}: the registry does not speak TLS; on a network that you trust, allow --plain-http"
        )
    return UnavailableError(f"{doing}: no answer: {_name(error)}; is the registry up and in reach?")


def broken_stream(error: httpx2.TransportError, doing: str) -> BrokenStreamError:
    """The error for a response that stopped in its middle."""
    return BrokenStreamError(f"{doing}: the connection broke: {_name(error)}")


def _name(error: httpx2.TransportError) -> str:
    return str(error) or type(error).__name__  # timeouts have no words


def _causes(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
