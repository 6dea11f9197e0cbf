"""A connection to one API server: where it is, who we are, and requests whose failures are `KubeError`s.

lightkube reads kubeconfigs and service accounts, builds the TLS context, and authenticates (token files are
read again after a 401, which is how rotated service account tokens are picked up). What a request means is
`client`'s.
"""

import contextlib
import urllib.parse
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Self

import httpx2
import lightkube
from lightkube.config.client_adapter import user_auth, verify_cluster
from lightkube.config.models import User

from gkm.base.http import make_transport
from gkm.kube.errors import (
    ConfigurationError,
    CredentialsError,
    ProtocolError,
    UnreachableError,
    error_from_status,
)
from gkm.kube.fence import Fence
from gkm.kube.transport import ApiTransport, RequestObserver


def _timeout(read: float) -> httpx2.Timeout:
    """Seconds for each step of a request; `read` for a silent server."""
    return httpx2.Timeout(connect=10, read=read, write=30, pool=30)


# An API server answers within its own --request-timeout, 60 s unless told otherwise.
_READ_TIMEOUT = 60.0


def load_config(kubeconfig: Path | None = None, context: str | None = None) -> lightkube.SingleConfig:
    """Where the API server is and who we are.

    From `kubeconfig` if given; else the Pod's service account, `$KUBECONFIG`, ``~/.kube/config``, in that
    order.

    Raises:
        ConfigurationError: nothing usable was found; the message says where it was looked for.
    """
    try:
        found = lightkube.KubeConfig.from_file(kubeconfig) if kubeconfig else lightkube.KubeConfig.from_env()
        single = found.get(context)
    # lightkube lets KeyError (an unknown user or cluster) and YAML and conversion errors through.
    except Exception as error:
        raise ConfigurationError(
            f"no usable Kubernetes configuration: {error}; "
            "run inside a Pod, set KUBECONFIG, or name a kubeconfig"
        ) from error
    assert single is not None
    return single


class Connection:
    """Authenticated HTTP to one API server, with retries. Close it with `aclose` or use it as a context.

    `user_agent` stands in the server's audit log. `fence`, where given, is asked before anything that mutates
    is sent. `attempts` counts how often a request is sent at most (`gkm.base.http`); `observe` sees each
    request.

    Raises:
        ConfigurationError: certificates or keys named in `config` cannot be loaded.
    """

    def __init__(
        self,
        config: lightkube.SingleConfig,
        *,
        user_agent: str,
        fence: Fence | None = None,
        attempts: int = 4,
        observe: RequestObserver | None = None,
    ) -> None:
        user = config.user or User()
        try:
            verify = verify_cluster(config.cluster, user, config.abs_file, trust_env=False)
            auth = user_auth(user)
        except (OSError, ValueError, lightkube.ConfigError) as error:
            raise ConfigurationError(f"credentials of {config.cluster.server}: {error}") from error
        self.namespace = config.namespace
        self._http = httpx2.AsyncClient(
            base_url=config.cluster.server,
            auth=auth,
            timeout=_timeout(_READ_TIMEOUT),
            transport=ApiTransport(
                make_transport(verify=verify, attempts=attempts),
                user_agent=user_agent,
                fence=fence,
                observe=observe,
            ),
        )

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> bytes:
        """Send one request and return the answer's body.

        Raises:
            ApiError: the server refused; the subclass says how.
            UnreachableError: no answer.
            CredentialsError: there is no token to send.
            NotLeaderError: the fence is closed.
        """
        headers = {"accept": accept}
        if body is not None:
            headers["content-type"] = content_type
        request = self._http.build_request(method, path, params=query, content=body, headers=headers)
        with _failures(f"{method} {path}"):
            response = await self._http.send(request)
        if not response.is_success:
            raise error_from_status(response.content, code=response.status_code, request=f"{method} {path}")
        return response.content

    @contextlib.asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str],
        accept: str,
        read_timeout: float = _READ_TIMEOUT,
        compressed: bool = False,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """GET `path` and hand out the body piece by piece, as it arrives.

        `read_timeout` is how many seconds the server may be silent. `compressed` lets it compress, which is
        for answers that end: an event must not sit in a decompressor until a block is full.

        Raises:
            ApiError, UnreachableError, CredentialsError: as `send`, also while the body is read.
        """
        headers = {"accept": accept, "accept-encoding": "gzip" if compressed else "identity"}
        timeout = _timeout(read_timeout)
        request = self._http.build_request("GET", path, params=query, headers=headers, timeout=timeout)
        what = f"GET {path}?{urllib.parse.urlencode(query)}"
        with _failures(what):
            response = await self._http.send(request, stream=True)
        try:
            if not response.is_success:
                with _failures(what):
                    body = await response.aread()
                raise error_from_status(body, code=response.status_code, request=what)
            yield _pieces(response, what, compressed)
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        """Close every connection; requests in flight fail."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


async def _pieces(response: httpx2.Response, what: str, compressed: bool) -> AsyncIterator[bytes]:
    with _failures(what):
        async for piece in response.aiter_bytes() if compressed else response.aiter_raw():
            yield piece


@contextlib.contextmanager
def _failures(what: str) -> Iterator[None]:
    try:
        yield
    except httpx2.TransportError as error:
        raise UnreachableError(f"{what}: {type(error).__name__}: {error}") from error
    except httpx2.HTTPError as error:
        raise ProtocolError(f"{what}: {error}") from error
    # What is left of OSError comes from reading a token or running a plugin: the HTTP library wraps its own.
    except (lightkube.ConfigError, OSError) as error:
        raise CredentialsError(f"{what}: {error}") from error
