"""A registry that can be made to misbehave, and clients that know it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from gkm.images.credentials import CredentialSource
from gkm.images.open import open_repository
from gkm.images.options import ClientOptions
from gkm.images.reference import RegistryReference
from gkm.images.repository import Repository
from support.fault_registry import REPOSITORY, FaultRegistry, fault_registry

Open = Callable[..., AbstractAsyncContextManager[Repository]]


@pytest.fixture
async def faulty() -> AsyncIterator[FaultRegistry]:
    async with fault_registry() as registry:
        yield registry


@pytest.fixture
def reference(faulty) -> RegistryReference:
    return RegistryReference(faulty.host, REPOSITORY, "v1")


@pytest.fixture
def opened(reference) -> Open:
    """Opens the repository; keyword arguments become `ClientOptions`."""

    def make(credentials: CredentialSource | None = None, **options: object) -> object:
        return open_repository(reference, ClientOptions(credentials=credentials, environ={}, **options))

    return make
