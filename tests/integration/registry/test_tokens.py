"""A real registry that believes nobody but its token server."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator

import pytest

from gkm.images.auth_config import Credentials
from gkm.images.copy import copy_image
from gkm.images.credentials import NoCredentials
from gkm.images.errors import UnauthorizedError
from gkm.images.open import open_repository
from gkm.images.options import ClientOptions
from support.fault_server import fault_server
from support.images import read, small_image, store
from support.registry import RunningRegistry, TokenAuth, running_registry
from support.token_server import ISSUER, SERVICE, SigningServer, make_signing_key


class Alice:
    async def find(self, host, repository):
        return Credentials("alice", "a secret")


@pytest.fixture
async def token_registry(tmp_path_factory) -> AsyncIterator[RunningRegistry]:
    directory = tmp_path_factory.mktemp("tokens")
    key, certificate = make_signing_key(directory)
    server = SigningServer(key, certificate, "Basic " + base64.b64encode(b"alice:a secret").decode())
    async with fault_server(server.handle) as tokens:
        auth = TokenAuth(f"http://{tokens.host}/token", SERVICE, ISSUER, certificate)
        context = running_registry(directory, token=auth)
        running = await asyncio.to_thread(context.__enter__)
        try:
            yield running
        finally:
            await asyncio.to_thread(context.__exit__, None, None, None)


async def test_push_mount_and_public_pull_by_tokens(token_registry, fresh, tmp_path):
    image = small_image(os.urandom(500_000), b"second")
    first, second = fresh(token_registry), fresh(token_registry)
    alice = ClientOptions(credentials=Alice(), environ={})
    async with open_repository(first, alice) as a, open_repository(second, alice) as b:
        await store(a, image, tmp_path, "v1")
        result = await copy_image(a, first, b, second)
        assert result.blobs_skipped == len(image.blobs)
    async with open_repository(second, ClientOptions(credentials=NoCredentials(), environ={})) as anyone:
        descriptor = await anyone.resolve(second)
        assert descriptor.digest == image.digest
        assert await read(anyone, image.layers[0]) == image.blobs[image.layers[0].digest]
        with pytest.raises(UnauthorizedError, match="docker login"):
            await anyone.write_manifest(image.manifest, image.descriptor.media_type, "v2")
