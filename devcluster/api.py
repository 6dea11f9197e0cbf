"""The few requests that devcluster itself makes to its API server and etcd, over mutual TLS."""

import http.client
import json
import ssl
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from devcluster.pki import Pair
from gkm.base.errors import GKMError


class AnswerError(GKMError):
    """The server answered with an error; `status` is the HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class UnreachableError(GKMError):
    """There was no answer."""


@dataclass(frozen=True)
class Endpoint:
    """One HTTPS server of the cluster, and who we are to it."""

    host: str
    port: int
    authority: str  # path of the CA certificate
    pair: Pair

    @cached_property
    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority)
        context.load_cert_chain(self.pair.certificate, self.pair.key)
        return context

    def text(self, method: str, path: str, body: object = None, *, timeout: float = 5) -> str:
        """The body of the answer.

        Raises `AnswerError` for a status of 400 or more, `UnreachableError` where there is no answer.
        """
        connection = http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=self._context)
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        try:
            connection.request(
                method,
                path,
                body=None if body is None else json.dumps(body),
                headers={"Content-Type": kind, "User-Agent": "gkm-devcluster"},
            )
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise UnreachableError(f"{self.host}:{self.port} does not answer: {error}") from error
        finally:
            connection.close()
        if answer.status >= http.client.BAD_REQUEST:
            raise AnswerError(f"{method} {path}: status {answer.status}: {text[:500]}", answer.status)
        return text

    def json(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - a document of any shape
        """The answer decoded. Raises as `text` does."""
        return json.loads(self.text(method, path, body))

    def answers(self, path: str) -> bool:
        """Whether GET `path` succeeds now: health endpoints answer 200 or an error."""
        try:
            self.text("GET", path)
        except GKMError:
            return False
        return True
