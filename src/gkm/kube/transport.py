"""The HTTP transport of the Kubernetes client: the fence, the request metric, and a name for the audit
log."""

from collections.abc import Callable
from typing import Any

import httpx2

from gkm.kube.fence import Fence

_READING = frozenset({"GET", "HEAD", "OPTIONS"})

# The two moments at which the HTTP library is about to write a request to its connection. With a body, the
# server acts only once that arrived; without, at the end of the headers. Nothing is awaited in between.
_ABOUT_TO_WRITE = frozenset({"http11.send_request_headers.started", "http11.send_request_body.started"})

RequestObserver = Callable[[str, str, str], None]
"""Called with method, host and status code (``<error>`` where there was no answer) of each request."""


class ApiTransport(httpx2.AsyncBaseTransport):
    """Wraps the retrying transport below a client.

    With a `fence`, a mutating request is checked when it is made and again, for every attempt, right before
    its headers and its body are written: waiting for a connection or between retries may take long.
    """

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        *,
        user_agent: str,
        fence: Fence | None = None,
        observe: RequestObserver | None = None,
    ) -> None:
        self._inner = inner
        self._user_agent = user_agent
        self._fence = fence
        self._observe = observe

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send `request`. Raises `NotLeaderError` if the fence is closed, else what the wrapped one
        raises."""
        request.headers["user-agent"] = self._user_agent
        if self._fence is not None and request.method not in _READING:
            self._guard(request, self._fence)
        code = "<error>"
        try:
            response = await self._inner.handle_async_request(request)
            code = str(response.status_code)
        finally:
            if self._observe is not None:
                self._observe(request.method, request.url.netloc.decode(), code)
        return response

    @staticmethod
    def _guard(request: httpx2.Request, fence: Fence) -> None:
        what = f"{request.method} {request.url.path}"
        fence.check(what)

        async def trace(event: str, _info: dict[str, Any]) -> None:
            if event in _ABOUT_TO_WRITE:
                fence.check(what)

        request.extensions = {**request.extensions, "trace": trace}

    async def aclose(self) -> None:
        """Close the wrapped transport."""
        await self._inner.aclose()
