"""Answering a registry that asks who we are: Basic, or a bearer token from the server that it names.

The token protocol is distribution's ("Token Authentication Specification", "OAuth2 Token Authentication").
"""

import asyncio
import base64
import time
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass

import httpx2
import msgspec

from gkm.images.auth_config import Credentials
from gkm.images.challenge import Challenge, parse_challenges
from gkm.images.credentials import CredentialSource
from gkm.images.errors import ProtocolError, UnauthorizedError
from gkm.images.responses import error_words, read_bounded, status_error, transport_error

_CLIENT_ID = "gkm"
# By the token specification, what a token without "expires_in" is good for.
_DEFAULT_LIFE = 60.0
_MARGIN = 30.0
_MAX_TOKEN_BYTES = 1 << 20

Scopes = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Token:
    header: str
    good_until: float


class _TokenAnswer(msgspec.Struct):
    token: str = ""
    access_token: str = ""
    expires_in: float = _DEFAULT_LIFE


class Authenticator:
    """Makes the Authorization header for requests to one repository of one registry.

    Tokens are kept per server, service and scopes until 30 s before they expire; tasks that need the same
    one wait for a single request. Credentials go to the registry itself and to the token server that it
    names, and to nobody else; `may_send_to` says whether a token server's address is safe enough for them.
    """

    def __init__(
        self,
        http: httpx2.AsyncClient,
        source: CredentialSource,
        host: str,
        repository: str,
        may_send_to: Callable[[httpx2.URL], bool],
    ) -> None:
        self._http = http
        self._source = source
        self._host = host
        self._repository = repository
        self._may_send_to = may_send_to
        self._challenge: Challenge | None = None
        self._credentials: Credentials | None = None
        self._asked = False
        self._tokens: dict[Scopes, _Token] = {}
        self._locks: dict[Scopes, asyncio.Lock] = {}
        self._lookup = asyncio.Lock()

    async def header(self, scopes: Scopes) -> str | None:
        """What to send along for `scopes`; None as long as the registry has not asked for anything.

        Raises:
            CredentialsError, UnauthorizedError, UnavailableError, ProtocolError: no token could be had.
        """
        if self._challenge is None:
            return None
        if self._challenge.scheme == "basic":
            return await self._basic()
        return await self._bearer(self._challenge, scopes)

    async def answer(self, headers: Iterable[str], scopes: Scopes, rejected: str | None) -> str | None:
        """What to send after a 401 with the ``WWW-Authenticate`` `headers`, in place of `rejected`.

        None where there is nothing better to send. Raises like `header`.
        """
        challenges = {challenge.scheme: challenge for challenge in reversed(parse_challenges(headers))}
        self._challenge = challenges.get("bearer") or challenges.get("basic")
        for key, token in list(self._tokens.items()):
            if token.header == rejected:
                del self._tokens[key]
        header = await self.header(scopes)
        return header if header != rejected else None

    async def refusal(self) -> str:
        """For people: who was refused, and what to do."""
        credentials = await self._find()
        if credentials is None:
            return f"no credentials for {self._host} were found; log in with `docker login {self._host}`"
        who = credentials.username or "the stored token"
        return f"{who} may not do this at {self._host}; check its rights, or log in as somebody else"

    async def _find(self) -> Credentials | None:
        async with self._lookup:
            if not self._asked:
                self._credentials = await self._source.find(self._host, self._repository)
                self._asked = True
        return self._credentials

    async def _basic(self) -> str | None:
        credentials = await self._find()
        return _basic_header(credentials) if credentials else None

    async def _bearer(self, challenge: Challenge, scopes: Scopes) -> str:
        wanted = tuple(dict.fromkeys((*scopes, *challenge.parameters.get("scope", "").split())))
        async with self._locks.setdefault(wanted, asyncio.Lock()):
            token = self._tokens.get(wanted)
            if token is None or token.good_until < time.monotonic():
                token = self._tokens[wanted] = await self._request_token(challenge, wanted)
            return token.header

    async def _request_token(self, challenge: Challenge, scopes: Scopes) -> _Token:
        realm = self._realm(challenge)
        service = challenge.parameters.get("service", "")
        credentials = await self._find()
        if credentials and credentials.identity_token:
            request = self._http.build_request(
                "POST",
                realm,
                data={
                    "grant_type": "refresh_token",
                    "refresh_token": credentials.identity_token,
                    "client_id": _CLIENT_ID,
                    "service": service,
                    "scope": " ".join(scopes),
                },
            )
        else:
            query = httpx2.QueryParams([("service", service), *(("scope", scope) for scope in scopes)])
            headers = {"authorization": _basic_header(credentials)} if credentials else {}
            request = self._http.build_request("GET", realm.copy_merge_params(query), headers=headers)
        return await self._send(request)

    async def _send(self, request: httpx2.Request) -> _Token:
        doing = f"fetching a token for {self._host} from {request.url.host}"
        asked = time.monotonic()
        try:
            # Credentials went to this address alone: a redirect is not followed.
            response = await self._http.send(request, stream=True, follow_redirects=False)
        except httpx2.TransportError as error:
            raise transport_error(error, doing) from error
        async with aclosing(response):
            if response.status_code in (400, 401, 403):
                raise UnauthorizedError(f"{doing}: refused: {await self.refusal()}")
            if response.status_code != 200:
                raise status_error(response.status_code, doing, await error_words(response))
            header, life = _token(await read_bounded(response, _MAX_TOKEN_BYTES, doing), doing)
        return _Token(header, asked + life - _MARGIN)

    def _realm(self, challenge: Challenge) -> httpx2.URL:
        text = challenge.parameters.get("realm", "")
        try:
            realm = httpx2.URL(text)
        except httpx2.InvalidURL as error:
            raise ProtocolError(
                f"{self._host} names {text!r} as its token server, which is no URL"
            ) from error
        if realm.scheme not in ("https", "http") or not self._may_send_to(realm):
            raise ProtocolError(
                f"{self._host} wants tokens fetched from {text!r}, "
                "but credentials could be read on the way there"
            )
        return realm


def _token(data: bytes, doing: str) -> tuple[str, float]:
    try:
        answer = msgspec.json.decode(data, type=_TokenAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"{doing}: the answer is not a token") from error
    token = answer.token or answer.access_token
    # What goes into a header must not be able to end it.
    if not token.isascii() or not token.isprintable() or not token:
        raise ProtocolError(f"{doing}: the answer holds no usable token")
    return f"Bearer {token}", answer.expires_in


def _basic_header(credentials: Credentials) -> str:
    pair = f"{credentials.username}:{credentials.password}"
    return "Basic " + base64.b64encode(pair.encode()).decode("ascii")
