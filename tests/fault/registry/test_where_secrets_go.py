"""Credentials and tokens: to the registry and the token server that it names, safely, and to nobody else."""

import asyncio
import base64
import os
import ssl

import pytest

from gkm.images.auth_config import Credentials
from gkm.images.errors import ProtocolError, UnauthorizedError
from gkm.images.open import open_repository
from gkm.images.options import ClientOptions
from gkm.images.reference import RegistryReference
from support.fault_registry import REPOSITORY, TokenServer, fault_registry, whole_or_range
from support.fault_server import answer, cut, fault_server
from support.images import describe, read, small_image, store
from support.registry import make_certificates

DATA = os.urandom(200_000)
BASIC = "Basic " + base64.b64encode(b"bob:pass word").decode()


class Fixed:
    """Credentials as given; counts how often it was asked."""

    def __init__(self, credentials):
        self.credentials, self.asked = credentials, 0

    async def find(self, host, repository):
        self.asked += 1
        return self.credentials


@pytest.fixture
def image(faulty):
    image = small_image(DATA)
    faulty.add(image)
    return image


async def test_a_public_token_needs_no_credentials(faulty, image, opened, reference):
    tokens = TokenServer(faulty)
    async with opened(Fixed(None)) as repository:
        assert (await repository.resolve(reference)).digest == image.digest
    assert tokens.asked[0].query == {"service": ["faults"], "scope": [f"repository:{REPOSITORY}:pull"]}
    assert "authorization" not in tokens.asked[0].headers


async def test_many_readers_share_one_token(faulty, image, opened):
    tokens = TokenServer(faulty, user=BASIC)
    source = Fixed(Credentials("bob", "pass word"))
    async with opened(source) as repository:
        results = await asyncio.gather(*(read(repository, image.layers[0]) for _ in range(8)))
    assert set(results) == {DATA}
    assert len(tokens.given) == source.asked == 1


async def test_a_token_near_its_end_is_replaced(faulty, image, opened):
    tokens = TokenServer(faulty, life=20)
    async with opened(Fixed(None)) as repository:
        for _ in range(3):
            await read(repository, image.layers[0])
    assert len(tokens.given) == 3


async def test_a_token_that_was_revoked_is_replaced(faulty, image, opened):
    tokens = TokenServer(faulty)
    async with opened(Fixed(None)) as repository:
        await read(repository, image.layers[0])
        tokens.revoke()
        await read(repository, image.layers[0])
    assert len(tokens.given) == 2


async def test_writing_asks_for_more_than_reading(faulty, opened, tmp_path):
    tokens = TokenServer(faulty)
    async with opened(Fixed(None)) as repository:
        await store(repository, small_image(b"x"), tmp_path, "v1")
    scopes = {scope for request in tokens.asked for scope in request.query["scope"]}
    assert f"repository:{REPOSITORY}:pull,push" in scopes


async def test_a_token_that_runs_out_during_an_upload_is_replaced(faulty, opened, tmp_path):
    tokens = TokenServer(faulty)
    revoked = []

    def revoke(request):
        if request.method == "PUT" and not revoked:
            revoked.append(request)
            tokens.revoke()

    (tmp_path / "blob").write_bytes(DATA)
    faulty.rules.insert(0, revoke)
    async with opened(Fixed(None)) as repository:
        await repository.write_blob(describe(DATA), tmp_path / "blob")
    assert revoked
    assert faulty.blobs[describe(DATA).digest] == DATA


async def test_refused_credentials_are_not_tried_again_and_again(faulty, image, opened, reference):
    tokens = TokenServer(faulty, user=BASIC)
    async with opened(Fixed(Credentials("bob", "wrong"))) as repository:
        with pytest.raises(UnauthorizedError, match="bob") as caught:
            await repository.resolve(reference)
    assert len(tokens.asked) == 1
    assert "wrong" not in str(caught.value)


async def test_an_identity_token_is_exchanged(faulty, image, opened, reference):
    tokens = TokenServer(faulty)
    async with opened(Fixed(Credentials(identity_token="refresh me"))) as repository:
        await repository.resolve(reference)
    request = tokens.asked[0]
    assert request.method == "POST"
    assert b"refresh_token=refresh+me" in request.body
    assert f"scope=repository%3A{REPOSITORY.replace('/', '%2F')}%3Apull".encode() in request.body


async def test_a_redirect_to_another_host_carries_no_secret_and_can_be_resumed(faulty, image, opened):
    TokenServer(faulty)
    replies = iter([cut(200, DATA, 60_000)])
    async with fault_server(lambda r: next(replies, None) or whole_or_range(r, DATA)) as storage:
        to_storage = answer(307, headers={"location": f"http://{storage.host}/object?signature=1"})
        faulty.always("GET", "/blobs/", lambda _: to_storage)
        async with opened(Fixed(None)) as repository:
            assert await read(repository, image.layers[0]) == DATA
        assert [r.headers.get("range") for r in storage.requests] == [None, "bytes=60000-"]
        assert all("authorization" not in r.headers for r in storage.requests)
    assert all("authorization" in r.headers for r in faulty.requests[3:])


async def test_a_circle_of_redirects_ends(faulty, image, opened):
    faulty.always("GET", "/blobs/", lambda r: answer(302, headers={"location": r.path}))
    async with opened() as repository:
        with pytest.raises(ProtocolError, match="redirects"):
            await read(repository, image.layers[0])


@pytest.mark.parametrize("location", ["http://registry.example/x", "file:///etc/passwd", "http://[::", ""])
async def test_a_redirect_to_an_unsafe_place_is_not_followed(faulty, image, opened, location):
    faulty.always("GET", "/blobs/", lambda _: answer(302, headers={"location": location}))
    async with opened() as repository:
        with pytest.raises(ProtocolError):
            await read(repository, image.layers[0])


@pytest.mark.parametrize("realm", ["http://auth.example/token", "ftp://auth.example/", "nonsense", ""])
async def test_a_token_server_that_is_not_safe_gets_nothing(faulty, image, opened, reference, realm):
    challenge = {"www-authenticate": f'Bearer realm="{realm}",service="x"'}
    faulty.always("GET", "/manifests/", lambda _: answer(401, headers=challenge))
    async with opened(Fixed(Credentials("bob", "secret"))) as repository:
        with pytest.raises(ProtocolError, match="credentials could be read"):
            await repository.resolve(reference)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"token": ""}', b'{"token": "a\\r\\nb"}', b'{"token": "\\u00e9"}']
)
async def test_an_unusable_token_is_an_error(faulty, image, opened, reference, body):
    tokens = TokenServer(faulty)
    faulty.rules.insert(0, lambda r: answer(200, body) if r.path == "/token" else None)
    async with opened(Fixed(None)) as repository:
        with pytest.raises(ProtocolError, match="token"):
            await repository.resolve(reference)
    assert not tokens.given


async def test_from_tls_nothing_leads_to_plain_http(tmp_path):
    ca, certificate, key = make_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    image = small_image(DATA)
    async with fault_registry(context) as secure, fault_registry() as plain:
        secure.add(image)
        plain.add(image)
        secure.always(
            "GET", "/blobs/", lambda r: answer(307, headers={"location": f"http://{plain.host}{r.path}"})
        )
        reference = RegistryReference(secure.host, REPOSITORY, "v1")
        async with open_repository(reference, ClientOptions(ca=ca, environ={})) as repository:
            assert (await repository.resolve(reference)).digest == image.digest
            with pytest.raises(ProtocolError, match="not a safe place"):
                await read(repository, image.layers[0])
        assert not plain.requests


async def test_the_proxy_of_the_environment_is_taken_and_loopback_never_is(faulty, image, reference):
    environ = {"HTTP_PROXY": f"http://{faulty.host}", "HTTPS_PROXY": "http://127.0.0.1:1"}
    far = RegistryReference("registry.example", REPOSITORY, "v1")
    async with open_repository(far, ClientOptions(plain_http=True, environ=environ)) as repository:
        assert (await repository.resolve(far)).digest == image.digest
    assert faulty.requests[-1].headers["host"] == "registry.example"
    nowhere = {"HTTP_PROXY": "http://127.0.0.1:1", "http_proxy": "http://127.0.0.1:1"}
    async with open_repository(reference, ClientOptions(environ=nowhere)) as repository:
        assert (await repository.resolve(reference)).digest == image.digest
