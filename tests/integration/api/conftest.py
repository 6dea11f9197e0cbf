"""A control plane on which our CRDs are installed, asked by kubectl or, for many answers, directly."""

import subprocess
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx2
import msgspec
import pytest

from gkm.api.definitions import DEFINITIONS
from gkm.api.wire import API_VERSION
from support.devcluster import Cluster
from support.parts import REPOSITORY

BY_KIND = {definition.kind: definition for definition in DEFINITIONS}


@pytest.fixture(scope="session")
def with_crds(control_plane: Cluster) -> Cluster:
    """The control plane of this test run, serving the custom resources from `deploy/crds`."""
    control_plane.kubectl("apply", "--server-side", "-f", str(REPOSITORY / "deploy" / "crds"))
    names = [f"crd/{definition.crd_name}" for definition in DEFINITIONS]
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)
    return control_plane


@pytest.fixture(scope="module")
def home(with_crds: Cluster) -> Iterator[str]:
    """A namespace for all objects of one test module."""
    name = f"test-{uuid4().hex[:8]}"
    with_crds.create_namespace(name)
    yield name
    with_crds.kubectl("delete", "namespace", name, "--wait=false")


class Server:
    """The API server, one HTTP request a call, strict about unknown fields like kubectl."""

    def __init__(self, client: httpx2.Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    def path(self, kind: str, name: str = "", subresource: str = "") -> str:
        """Where objects of `kind` are, or one of them."""
        definition = BY_KIND[kind]
        scope = ["namespaces", self._namespace] if definition.namespaced else []
        return "/".join(
            part for part in ["/apis", API_VERSION, *scope, definition.plural, name, subresource] if part
        )

    def create(self, body: dict[str, Any]) -> dict[str, Any]:
        """POST: the object as stored, or the Status that refuses it."""
        return self._send("POST", self.path(body["kind"]), body)

    def replace(self, body: dict[str, Any], stored: dict[str, Any], subresource: str = "") -> dict[str, Any]:
        """PUT over `stored`: the object as stored now, or the Status that refuses it."""
        metadata = {**body["metadata"], "resourceVersion": stored["metadata"]["resourceVersion"]}
        path = self.path(body["kind"], body["metadata"]["name"], subresource)
        return self._send("PUT", path, {**body, "metadata": metadata})

    def delete(self, body: dict[str, Any]) -> None:
        """DELETE the object, if it is there."""
        self._send("DELETE", self.path(body["kind"], body["metadata"]["name"]), {})

    def read(self, path: str) -> dict[str, Any]:
        """GET any path."""
        return self._send("GET", path, None)

    def _send(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        answer = self._client.request(
            method,
            path,
            content=None if body is None else msgspec.json.encode(body),
            headers={"Content-Type": "application/json"},
            params={"fieldValidation": "Strict"},
        )
        decoded: dict[str, Any] = answer.json()
        return decoded


@pytest.fixture(scope="module")
def server(with_crds: Cluster, home: str) -> Iterator[Server]:
    """The API server as the administrator sees it, with namespaced objects in `home`."""
    kubectl = with_crds.layout.bin / "kubectl"
    command = [kubectl, "--kubeconfig", with_crds.kubeconfig, "proxy", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
        try:
            assert proxy.stdout is not None
            address = proxy.stdout.readline().rsplit(" ", 1)[-1].strip()
            with httpx2.Client(base_url=f"http://{address}", trust_env=False, timeout=60) as client:
                yield Server(client, home)
        finally:
            proxy.terminate()
