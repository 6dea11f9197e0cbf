"""A control plane that serves our kinds, a registry, and one namespace for each test."""

import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from gkm.api.definitions import DEFINITIONS
from gkm.kube.client import Client
from gkm.kube.connection import Connection, load_config
from support.devcluster import Cluster
from support.operating import Bench
from support.parts import REPOSITORY
from support.registry import RunningRegistry, running_registry


@pytest.fixture(scope="session")
def serving(control_plane: Cluster) -> Cluster:
    """The control plane with our CRDs, and no cache that another test left."""
    control_plane.kubectl("apply", "--server-side", "-f", str(REPOSITORY / "deploy" / "crds"))
    names = [f"crd/{definition.crd_name}" for definition in DEFINITIONS]
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)
    control_plane.kubectl("create", "namespace", "gkm-system", check=False)
    control_plane.kubectl("delete", "gkmcaches", "--all", "--all-namespaces")
    control_plane.kubectl("delete", "clustergkmcaches", "--all")
    return control_plane


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    """A registry for the tests of one module."""
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def image(registry: RunningRegistry) -> str:
    """A tag that no other test uses."""
    return f"{registry.host}/caches/{uuid.uuid4().hex[:8]}:v1"


@pytest.fixture
async def bench(serving: Cluster) -> AsyncIterator[Bench]:
    """The administrator's view, with a namespace of its own."""
    name = f"op-{uuid.uuid4().hex[:8]}"
    serving.create_namespace(name)
    connection = Connection(load_config(serving.kubeconfig), user_agent="test")
    async with Client(connection, field_manager="test") as client:
        made = Bench(serving, client, name)
        yield made
        await made.sweep()
    serving.kubectl("delete", "namespace", name, "--wait=false")
