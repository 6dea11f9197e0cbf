"""Reading from a registry that cuts, stalls, lies or refuses."""

import os
import socket

import pytest

from gkm.images.errors import (
    BrokenStreamError,
    DigestMismatchError,
    NotFoundError,
    ProtocolError,
    RefusedError,
    SizeMismatchError,
    UnavailableError,
)
from gkm.images.image import fetch_image
from gkm.images.open import open_repository
from gkm.images.options import ClientOptions
from gkm.images.reference import RegistryReference
from support.fault_registry import content_range, whole_or_range
from support.fault_server import answer, cut, endless, hang_up, stall
from support.images import describe, read, small_image

DATA = os.urandom(300_000)


@pytest.fixture
def image(faulty):
    image = small_image(DATA)
    faulty.add(image)
    return image


async def test_a_cut_stream_is_resumed_where_it_stood(faulty, image, opened):
    faulty.fail("GET", "/blobs/", cut(200, DATA, 100_000, {"etag": '"one"'}))
    async with opened() as repository:
        assert await read(repository, image.layers[0]) == DATA
    again = faulty.requests[-1]
    assert again.headers["range"] == "bytes=100000-"
    assert again.headers["if-match"] == '"one"'
    assert faulty.count("GET", "/blobs/") == 2


async def test_a_weak_etag_is_not_sent_back(faulty, image, opened):
    faulty.fail("GET", "/blobs/", cut(200, DATA, 100_000, {"etag": 'W/"one"'}))
    async with opened() as repository:
        assert await read(repository, image.layers[0]) == DATA
    assert "if-match" not in faulty.requests[-1].headers


async def test_a_stalled_stream_is_resumed(faulty, image, opened):
    faulty.fail("GET", "/blobs/", stall(200, DATA, 50_000))
    async with opened(stall_seconds=0.2) as repository:
        assert await read(repository, image.layers[0]) == DATA
    assert faulty.requests[-1].headers["range"] == "bytes=50000-"


async def test_a_stream_without_a_length_that_ends_early_is_resumed(faulty, image, opened):
    faulty.fail("GET", "/blobs/", endless(200, DATA[:70_000]))
    async with opened() as repository:
        assert await read(repository, image.layers[0]) == DATA
    assert faulty.requests[-1].headers["range"] == "bytes=70000-"


async def test_a_server_without_ranges_starts_over_and_nothing_comes_twice(faulty, image, opened):
    faulty.fail("GET", "/blobs/", cut(200, DATA, 100_000), answer(200, DATA))
    async with opened() as repository:
        assert await read(repository, image.layers[0]) == DATA


async def test_an_object_that_changed_under_its_etag_is_read_without_it(faulty, image, opened):
    faulty.fail("GET", "/blobs/", cut(200, DATA, 100_000, {"etag": '"one"'}), answer(412))
    async with opened() as repository:
        assert await read(repository, image.layers[0]) == DATA
    assert "if-match" not in faulty.requests[-1].headers


async def test_another_range_than_the_one_asked_for_is_refused(faulty, image, opened):
    wrong = answer(206, DATA[200_000:], {"content-range": content_range(200_000, DATA)})
    faulty.fail("GET", "/blobs/", cut(200, DATA, 100_000), wrong)
    async with opened() as repository:
        with pytest.raises(ProtocolError, match="from byte 100000 on"):
            await read(repository, image.layers[0])


async def test_a_stream_that_never_gets_on_is_given_up(faulty, image, opened):
    faulty.always("GET", "/blobs/", lambda _: cut(200, DATA, 0))
    async with opened() as repository:
        with pytest.raises(BrokenStreamError):
            await read(repository, image.layers[0])
    assert faulty.count("GET", "/blobs/") == 5


async def test_a_slow_stream_that_gets_on_is_never_given_up(faulty, opened):
    data = os.urandom(12 << 20)
    blob = describe(data)
    faulty.blobs[blob.digest] = data

    def some(request):
        start = int(request.headers.get("range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        headers = {"content-range": content_range(start, data)}
        return cut(206 if start else 200, data[start:], 2 << 20, headers)

    faulty.always("GET", "/blobs/", some)
    async with opened() as repository:
        assert await read(repository, blob) == data
    assert faulty.count("GET", "/blobs/") > 5


async def test_damage_while_resuming_is_noticed(faulty, image, opened):
    other = os.urandom(len(DATA))
    faulty.fail("GET", "/blobs/", cut(200, DATA, 100_000))
    faulty.always("GET", "/blobs/", lambda request: whole_or_range(request, other))
    async with opened() as repository:
        with pytest.raises(DigestMismatchError):
            await read(repository, image.layers[0])
    assert faulty.count("GET", "/blobs/") == 2


async def test_a_wrong_digest_is_never_asked_for_again(faulty, image, opened):
    faulty.always("GET", "/blobs/", lambda _: answer(200, bytes(len(DATA))))
    async with opened() as repository:
        with pytest.raises(DigestMismatchError):
            await read(repository, image.layers[0])
    assert faulty.count("GET", "/blobs/") == 1


async def test_a_wrong_length_is_refused_before_the_bytes(faulty, image, opened):
    faulty.always("GET", "/blobs/", lambda _: answer(200, DATA + b"more"))
    async with opened() as repository, repository.open_blob(image.layers[0]) as chunks:
        with pytest.raises(SizeMismatchError, match="300004 bytes where 300000"):
            await anext(chunks)


async def test_no_byte_of_an_excess_comes_out(faulty, image, opened):
    faulty.always("GET", "/blobs/", lambda _: endless(200, DATA + bytes(5 << 20)))
    taken = bytearray()

    async def take(chunks):
        async for chunk in chunks:
            taken.extend(chunk)

    async with opened() as repository, repository.open_blob(image.layers[0]) as chunks:
        with pytest.raises(SizeMismatchError, match="more than"):
            await take(chunks)
    assert DATA.startswith(taken)
    assert taken


async def test_a_blob_that_is_shorter_than_promised_is_not_waited_for(faulty, image, opened):
    def short(request):
        if "range" in request.headers:
            return answer(416, headers={"content-range": "bytes */1000"})
        return endless(200, DATA[:1000])

    faulty.always("GET", "/blobs/", short)
    async with opened() as repository:
        with pytest.raises(SizeMismatchError):
            await read(repository, image.layers[0])


async def test_a_busy_registry_is_asked_again(faulty, image, opened, reference):
    faulty.fail("GET", "/manifests/", answer(429, headers={"retry-after": "0"}), answer(503), hang_up())
    async with opened() as repository:
        assert (await fetch_image(repository, reference)).descriptor.digest == image.digest


async def test_a_registry_that_stays_busy_is_unavailable(faulty, image, opened, reference):
    told = b'{"errors": [{"code": "TOOMANYREQUESTS", "message": "slow\\u001b[31m down"}]}'
    faulty.always("GET", "/manifests/", lambda _: answer(429, told, {"retry-after": "0"}))
    async with opened() as repository:
        with pytest.raises(UnavailableError, match=r"TOOMANYREQUESTS slow\?\[31m down"):
            await repository.resolve(reference)


async def test_a_manifest_that_breaks_off_is_read_again(faulty, image, opened, reference):
    faulty.fail("GET", "/manifests/", cut(200, image.manifest, 10))
    async with opened() as repository:
        assert (await repository.resolve(reference)).digest == image.digest


@pytest.mark.parametrize(
    ("status", "error"), [(404, NotFoundError), (400, RefusedError), (500, UnavailableError)]
)
async def test_each_refusal_has_its_class(faulty, image, opened, reference, status, error):
    faulty.always("GET", "/manifests/", lambda _: answer(status, b"<html>not for machines</html>"))
    async with opened() as repository:
        with pytest.raises(error, match="v1"):
            await repository.resolve(reference)


async def test_a_manifest_of_another_digest_is_refused(faulty, image, opened, reference):
    other = small_image(b"other")
    faulty.manifests[image.digest] = (other.descriptor.media_type, other.manifest)
    async with opened() as repository:
        with pytest.raises((DigestMismatchError, SizeMismatchError)):
            await repository.read_manifest(image.descriptor)


async def test_an_endless_manifest_is_refused(faulty, image, opened, reference):
    faulty.always("GET", "/manifests/", lambda _: endless(200, b" " * (5 << 20)))
    async with opened() as repository:
        with pytest.raises(ProtocolError, match="more than"):
            await repository.resolve(reference)


async def test_nobody_there_is_unavailable():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    nobody = RegistryReference(f"127.0.0.1:{port}", "test/nobody", "v1")
    async with open_repository(nobody, ClientOptions(environ={})) as repository:
        with pytest.raises(UnavailableError, match="is the registry up"):
            await repository.resolve(nobody)
