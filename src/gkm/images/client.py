"""HTTP to one repository of a registry: who we are, where it leads, what its refusals mean."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TypeAlias

import httpx2

from gkm.images.auth import Authenticator, Scopes
from gkm.images.credentials import CredentialSource
from gkm.images.errors import ProtocolError
from gkm.images.hosts import Scheme, api_host, is_loopback
from gkm.images.responses import broken_stream, error_words, status_error, transport_error

Content: TypeAlias = bytes | AsyncIterator[bytes] | None

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 5


class RegistryClient:
    """Sends requests below ``/v2/REPOSITORY/`` and turns what comes back into responses or errors.

    Rules that hold for every request:

    1. Authorization goes to the registry's own origin (scheme, host, port) and nowhere else.
    2. From HTTPS nothing leads to plain HTTP; from plain HTTP only to hosts where that is allowed.
    3. GET and HEAD follow at most five redirects; other methods follow none.
    4. Bodies come as the bytes that were stored: no transfer compression is asked for.
    """

    def __init__(
        self,
        http: httpx2.AsyncClient,
        source: CredentialSource,
        host: str,
        repository: str,
        scheme: Scheme,
        *,
        plain_http: bool = False,
    ) -> None:
        """`http` stays the caller's to close; `plain_http` allows plain HTTP beyond loopback."""
        self.host = host
        self.repository = repository
        self._http = http
        self._plain_http = plain_http
        self._base = httpx2.URL(f"{scheme}://{api_host(host)}/v2/{repository}/")
        self._authenticator = Authenticator(http, source, host, repository, self._is_safe)

    def url(self, location: str) -> httpx2.URL:
        """`location`, absolute or relative to the repository, as a URL that rule 2 allows.

        Raises:
            ProtocolError: it is no URL, or not a safe one.
        """
        return self._join(self._base, location)

    def scopes(self, *actions: str) -> Scopes:
        """What a token must allow for `actions` (``pull``, ``push``) on this repository."""
        return (f"repository:{self.repository}:{','.join(actions)}",)

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: httpx2.URL,
        scopes: Scopes,
        doing: str,
        *,
        expect: frozenset[int],
        headers: Mapping[str, str] | None = None,
        content: Content = None,
    ) -> AsyncGenerator[httpx2.Response, None]:
        """Send a request and give its response, body unread, if its status is one of `expect`.

        A 401 is answered once, unless `content` is an iterator: that can be sent a single time. `doing` opens
        the messages of errors.

        Raises:
            RegistryError: its subclass for what went wrong.
        """
        response = await self._follow(method, url, scopes, doing, headers or {}, content)
        async with aclosing(response):
            if response.status_code not in expect:
                refusal = await self._authenticator.refusal() if response.status_code in (401, 403) else ""
                raise status_error(response.status_code, doing, await error_words(response), refusal)
            yield response

    async def _follow(
        self,
        method: str,
        url: httpx2.URL,
        scopes: Scopes,
        doing: str,
        headers: Mapping[str, str],
        content: Content,
    ) -> httpx2.Response:
        """The first response that is no redirect, open."""
        for _ in range(1 + _MOST_REDIRECTS):
            if _origin(url) == _origin(self._base):
                response = await self._authenticate(method, url, scopes, doing, headers, content)
            else:
                response = await self._send(method, url, doing, headers, content)
            if response.status_code not in _REDIRECTS or method not in ("GET", "HEAD"):
                return response
            await response.aclose()
            url = self._join(url, response.headers.get("location", ""))
        raise ProtocolError(f"{doing}: more than {_MOST_REDIRECTS} redirects")

    async def _authenticate(
        self,
        method: str,
        url: httpx2.URL,
        scopes: Scopes,
        doing: str,
        headers: Mapping[str, str],
        content: Content,
    ) -> httpx2.Response:
        """The registry's own response, after one answer to its challenge if it has one."""
        authorization = await self._authenticator.header(scopes)
        response = await self._send(method, url, doing, _with(headers, authorization), content)
        if response.status_code != 401:
            return response
        challenges = response.headers.get_list("www-authenticate")
        better = await self._authenticator.answer(challenges, scopes, authorization)
        if better is None or isinstance(content, AsyncIterator):
            return response
        await response.aclose()
        return await self._send(method, url, doing, _with(headers, better), content)

    async def _send(
        self, method: str, url: httpx2.URL, doing: str, headers: Mapping[str, str], content: Content
    ) -> httpx2.Response:
        request = self._http.build_request(method, url, headers=headers, content=content)
        try:
            return await self._http.send(request, stream=True, follow_redirects=False)
        except httpx2.TransportError as error:
            raise transport_error(error, doing) from error

    def _join(self, base: httpx2.URL, location: str) -> httpx2.URL:
        try:
            url = base.join(location)
        except httpx2.InvalidURL as error:
            raise ProtocolError(f"{self.host} leads to {location!r}, which is no URL") from error
        if not location or not self._is_safe(url):
            raise ProtocolError(
                f"{self.host} leads to {location!r}, which is not a safe place to follow it to"
            )
        return url

    def _is_safe(self, url: httpx2.URL) -> bool:
        if url.scheme == "https":
            return True
        plain = self._plain_http or is_loopback(url.netloc.decode("ascii"))
        return url.scheme == "http" and self._base.scheme == "http" and plain


async def body(response: httpx2.Response, doing: str) -> AsyncGenerator[bytes, None]:
    """The body of `response` as it arrives; raises `BrokenStreamError` where it stops in the middle."""
    try:
        async with aclosing(response.aiter_raw()) as chunks:
            async for chunk in chunks:
                yield chunk
    except httpx2.TransportError as error:
        raise broken_stream(error, doing) from error


def _with(headers: Mapping[str, str], authorization: str | None) -> dict[str, str]:
    return {**headers, "authorization": authorization} if authorization else dict(headers)


def _origin(url: httpx2.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)
