"""What can go wrong between a controller and the API server: a class per case that callers treat differently.

An HTTP answer becomes an `ApiError` (by its status code), the lack of one an `UnreachableError`, an answer
that no API server gives a `ProtocolError`. Transport exceptions of the HTTP library never leave this room
unchained.
"""

import msgspec

from gkm.base.errors import GKMError, UsageError


class KubeError(GKMError):
    """A request to the API server did not do what it was to do."""

    reason = "KubernetesFailed"


class ConfigurationError(UsageError):
    """No usable kubeconfig, service account or credentials: nothing can be asked until that is mended."""

    reason = "KubernetesConfiguration"


class CredentialsError(KubeError):
    """The token file or the credential plugin that the configuration names gave nothing usable this time."""


class UnreachableError(KubeError):
    """No answer: the connection could not be made, was lost, or stayed silent for too long."""


class CutListError(UnreachableError):
    """The connection was lost in the middle of a list."""


class ProtocolError(KubeError):
    """The answer is not one of the Kubernetes API: cut in mid-line, not JSON, or without what it must
    hold."""


class StreamingUnsupportedError(ProtocolError):
    """The server does not stream lists: it went on to ordinary events without ending the initial ones."""


class IndexingError(KubeError):
    """A store's index function raised for an object; the store is as it was before."""


class NotLeaderError(KubeError):
    """A mutating request was about to be sent by a process that does not hold the lease (any more)."""


class LeadershipLostError(KubeError):
    """The lease could not be renewed in time, or another process took it; this one must stop."""


class TerminalError(GKMError):
    """A reconcile failed in a way that trying again cannot mend; the key waits for its next change."""


class ApiError(KubeError):
    """The API server answered with a failure. `code` is the HTTP status, `word` the Status object's
    reason."""

    reason = "ApiFailed"

    def __init__(self, message: str, *, code: int, word: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.word = word


class InvalidError(ApiError):
    """400 or 422: the request or the object is wrong; the message names the field."""


class UnauthorizedError(ApiError):
    """401: the credentials are missing, expired or unknown."""


class ForbiddenError(ApiError):
    """403: RBAC or an admission policy refuses it."""


class NotFoundError(ApiError):
    """404: no such object, namespace or kind."""


class ConflictError(ApiError):
    """409: the object changed since the resourceVersion that the request carries, or a field has another
    owner."""


class AlreadyExistsError(ApiError):
    """409: an object of this name is there already."""


class ExpiredError(ApiError):
    """410: the resourceVersion or continue token is older than the server's history; list again."""


class UnavailableError(ApiError):
    """429 or 5xx: the server is overloaded, restarting or broken; try again later."""


class FutureVersionError(UnavailableError):
    """The server has not reached the resourceVersion asked for (its storage was restored): list again."""


_BY_CODE: dict[int, type[ApiError]] = {
    400: InvalidError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
    422: InvalidError,
    429: UnavailableError,
}


class _Cause(msgspec.Struct):
    reason: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None


class _Status(msgspec.Struct):
    """`meta/v1` Status, as failures carry it."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


def error_from_status(body: bytes | msgspec.Raw, *, code: int = 0, request: str = "") -> ApiError:
    """The error that a Status object stands for, be it a response's body or a watch's ERROR event.

    `code` is the HTTP status where there is one; a body that is no Status (a proxy's page) leaves just that.
    `request` names what was asked, for the message.
    """
    try:
        status = msgspec.json.decode(body, type=_Status)
    except msgspec.MsgspecError:
        status = _Status(message=bytes(body[:200]).decode(errors="replace").strip())
    code = status.code or code
    kind = _BY_CODE.get(code, UnavailableError if code >= 500 else ApiError)
    if code == 409 and status.reason == "AlreadyExists":
        kind = AlreadyExistsError
    causes = (status.details.causes if status.details else None) or []
    if any(cause.reason == "ResourceVersionTooLarge" for cause in causes):
        kind = FutureVersionError
    text = status.message or status.reason or "no reason given"
    return kind(f"{request}: {code}: {text}" if request else f"{code}: {text}", code=code, word=status.reason)
