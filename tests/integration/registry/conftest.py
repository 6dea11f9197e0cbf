"""Real registries, one of each kind for all tests of the folder; each test has repositories of its own."""

import uuid
from collections.abc import Callable, Iterator

import pytest

from gkm.images.reference import RegistryReference
from support.registry import RunningRegistry, running_registry


@pytest.fixture(scope="session")
def registry(tmp_path_factory) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="session")
def guarded_registry(tmp_path_factory) -> Iterator[RunningRegistry]:
    """In TLS by an authority of its own, with a password."""
    with running_registry(tmp_path_factory.mktemp("guarded"), htpasswd=True, tls=True) as running:
        yield running


@pytest.fixture
def fresh() -> Callable[[RunningRegistry], RegistryReference]:
    """A reference into a repository that nobody used before."""

    def make(running: RunningRegistry) -> RegistryReference:
        return RegistryReference(running.host, f"test/{uuid.uuid4().hex}", "v1")

    return make
