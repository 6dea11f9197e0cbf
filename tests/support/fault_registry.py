"""A registry in memory that is right until it is told to be wrong: for faults that no real one makes on demand."""

import itertools
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from gkm.base.digests import digest_bytes
from gkm.images import media
from support.fault_server import FaultServer, Reply, Request, answer, fault_server
from support.images import SmallImage

REPOSITORY = "test/faults"
_ROOT = f"/v2/{REPOSITORY}"
_FOUND = "docker-content-digest"

Rule = Callable[[Request], Reply | None]


@dataclass
class FaultRegistry:
    """Holds one repository, REPOSITORY. The first of `rules` that has a reply to a request gives it."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)
    server: FaultServer | None = None

    @property
    def host(self) -> str:
        assert self.server is not None
        return self.server.host

    @property
    def requests(self) -> list[Request]:
        assert self.server is not None
        return self.server.requests

    def add(self, image: SmallImage, tag: str = "v1") -> None:
        """Hold `image`, by tag and digest."""
        self.blobs.update(image.blobs)
        for name in (tag, image.digest):
            self.manifests[name] = (media.OCI_MANIFEST, image.manifest)

    def fail(self, method: str, path: str, *replies: Reply) -> None:
        """Give `replies`, one after the other, to requests whose path contains `path`; then be right again."""
        left = iter(replies)

        def rule(request: Request) -> Reply | None:
            return next(left, None) if request.method == method and path in request.path else None

        self.rules.append(rule)

    def always(self, method: str, path: str, reply: Callable[[Request], Reply]) -> None:
        """Give what `reply` makes of each request whose path contains `path`."""
        self.rules.append(lambda r: reply(r) if r.method == method and path in r.path else None)

    def count(self, method: str, path: str) -> int:
        """How many requests came whose path contains `path`."""
        return sum(1 for r in self.requests if r.method == method and path in r.path)

    def handle(self, request: Request) -> Reply:
        for rule in self.rules:
            if reply := rule(request):
                return reply
        if request.path.startswith(f"{_ROOT}/blobs/uploads/"):
            return self._upload(request)
        if request.path.startswith(f"{_ROOT}/blobs/"):
            return self._blob(request)
        if request.path.startswith(f"{_ROOT}/manifests/"):
            return self._manifest(request)
        return answer(200 if request.path == "/v2/" else 404)

    def _blob(self, request: Request) -> Reply:
        data = self.blobs.get(request.path.rpartition("/")[2])
        if data is None:
            return answer(404)
        return whole_or_range(request, data)

    def _upload(self, request: Request) -> Reply:
        if request.method == "POST":
            return answer(202, headers={"location": f"{_ROOT}/blobs/uploads/1?state=x%2Fy"})
        digest = request.query["digest"][0]
        if (
            request.method != "PUT"
            or digest_bytes(request.body) != digest
            or request.query["state"] != ["x/y"]
        ):
            return answer(400, b'{"errors": [{"code": "DIGEST_INVALID"}]}')
        self.blobs[digest] = request.body
        return answer(201)

    def _manifest(self, request: Request) -> Reply:
        name = request.path.rpartition("/")[2]
        if request.method == "PUT":
            digest = digest_bytes(request.body)
            self.manifests[name] = self.manifests[digest] = (request.headers["content-type"], request.body)
            return answer(201, headers={_FOUND: digest})
        if name not in self.manifests:
            return answer(404, b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "no such thing"}]}')
        media_type, data = self.manifests[name]
        return answer(200, data, {"content-type": media_type, _FOUND: digest_bytes(data)})


def whole_or_range(request: Request, data: bytes, headers: Mapping[str, str] | None = None) -> Reply:
    """What a server that knows ranges answers."""
    length = {"content-length": str(len(data)), **(headers or {})}
    if request.method == "HEAD":
        return answer(200, b"", length)
    if (wanted := request.headers.get("range")) is None:
        return answer(200, data, headers)
    start = int(wanted.removeprefix("bytes=").removesuffix("-"))
    return answer(206, data[start:], {**(headers or {}), "content-range": content_range(start, data)})


def content_range(start: int, data: bytes) -> str:
    """The header for `data` from `start` on."""
    return f"bytes {start}-{len(data) - 1}/{len(data)}"


@asynccontextmanager
async def fault_registry(context: ssl.SSLContext | None = None) -> AsyncIterator[FaultRegistry]:
    """A running one, in TLS with a `context`."""
    registry = FaultRegistry()
    async with fault_server(registry.handle, context) as server:
        registry.server = server
        yield registry


class TokenServer:
    """Gives out opaque tokens for a FaultRegistry, which then lets in only those; counts what it gave.

    With `user`, only that pair of name and password gets any. `life` is what it promises, in seconds.
    """

    def __init__(self, registry: FaultRegistry, *, life: float = 300, user: str | None = None) -> None:
        self.given: list[str] = []
        self.valid: set[str] = set()
        self.asked: list[Request] = []
        self._life, self._user, self._numbers = life, user, itertools.count(1)
        registry.rules.insert(0, self._guard)
        self._registry = registry

    def revoke(self) -> None:
        """No token given so far is good any more."""
        self.valid.clear()

    def _guard(self, request: Request) -> Reply | None:
        if request.path == "/token":
            return self._token(request)
        if request.headers.get("authorization", "").removeprefix("Bearer ") in self.valid:
            return None
        action = "pull" if request.method in ("GET", "HEAD") else "pull,push"
        realm = f'realm="http://{self._registry.host}/token",service="faults"'
        challenge = f'Bearer {realm},scope="repository:{REPOSITORY}:{action}"'
        return answer(401, headers={"www-authenticate": challenge})

    def _token(self, request: Request) -> Reply:
        self.asked.append(request)
        if self._user is not None and request.headers.get("authorization") != self._user:
            return answer(401)
        token = f"token-{next(self._numbers)}"
        self.given.append(token)
        self.valid.add(token)
        return answer(200, b'{"token": "%s", "expires_in": %d}' % (token.encode(), self._life))
