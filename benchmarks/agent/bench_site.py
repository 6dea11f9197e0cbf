"""The cluster that the benchmark runs on: GKM installed, a registry, one node, and what is asked of them."""

import asyncio
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TypeVar

from bench_waiting import until

from devcluster import processes
from devcluster.cluster import Cluster
from gkm.api.wire import GROUP, VERSION
from gkm.images.open import ClientOptions
from gkm.kube.client import Client
from gkm.kube.errors import NotFoundError
from gkm.kube.objects import KubeObject, ObjectMeta, PartialObject, Slim
from gkm.kube.resources import Resource
from gkm.local.pack import pack_directory
from support.parts import REPOSITORY

T = TypeVar("T", bound=KubeObject)
NODE = "node-1"
SYSTEM = "gkm-system"


class _CacheStatus(Slim, frozen=True):
    resolved_digest: str = ""


class _Cache(Slim, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    status: _CacheStatus = _CacheStatus()


class _ClaimStatus(Slim, frozen=True):
    phase: str = ""


class _Claim(Slim, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    status: _ClaimStatus = _ClaimStatus()


CACHES = Resource(_Cache, GROUP, VERSION, "GKMCache", "gkmcaches")
_CLAIMS = Resource(_Claim, "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
_NAMESPACES = Resource(PartialObject, "", "v1", "Namespace", "namespaces", namespaced=False)
_ACCOUNTS = Resource(PartialObject, "", "v1", "ServiceAccount", "serviceaccounts")


def install(cluster: Cluster) -> None:
    """Put GKM and a registry on the cluster, by the script that people run (its images are built)."""
    layout = cluster.layout
    state = {"CLUSTER": layout.name, "GKM_DEVCLUSTER_STATE": str(layout.root), "PYTHON": sys.executable}
    script = REPOSITORY / "deploy" / "devcluster-install"
    done = subprocess.run(
        [script], cwd=REPOSITORY, env={**os.environ, **state}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{script.name} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")


class Site:
    """A cluster with GKM on it; `connect` first."""

    def __init__(self, cluster: Cluster, client: Client) -> None:
        self.cluster = cluster
        self._client = client
        self._service = ""
        self._registry = ""
        self._agent_address = ""
        self.agent_uid = ""
        """Of the agent's pod."""

    async def connect(self) -> None:
        """Find the registry and the agent; let the node's containerd speak to the registry as GKM does."""
        where = ("-n", "registry", "get")
        self._service = (
            self.kubectl(*where, "service", "registry", "-o", "jsonpath={.spec.clusterIP}") + ":5000"
        )
        self._registry = self.kubectl(*where, "pod", "registry", "-o", "jsonpath={.status.podIP}") + ":5000"
        agent = ("-n", SYSTEM, "get", "pod", "-l", "app.kubernetes.io/name=gkm-agent", "-o")
        self.agent_uid = self.kubectl(*agent, "jsonpath={.items[0].metadata.uid}")
        self._agent_address = self.kubectl(*agent, "jsonpath={.items[0].status.podIP}")
        folder = self.cluster.layout.registries / self._service
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hosts.toml").write_text(f'[host."http://{self._service}"]\n')

    @property
    def node_root(self) -> Path:
        """The node's files, as this process reaches them."""
        init = processes.recorded(self.cluster.layout.node(NODE) / "init.pid")
        assert init is not None, "the node runs"
        return Path(f"/proc/{init.pid}/root")

    def kubectl(self, *words: str) -> str:
        """What kubectl prints."""
        program, config = self.cluster.layout.bin / "kubectl", self.cluster.layout.kubeconfig
        return subprocess.run(
            [program, "--kubeconfig", config, *words], check=True, capture_output=True, text=True
        ).stdout

    async def make_namespace(self, name: str) -> None:
        """An empty namespace in which pods can be made."""
        await self._client.create(_NAMESPACES, {"metadata": {"name": name}})
        await until(lambda: self._found(_ACCOUNTS, "default", name), bool, "the namespace's account")

    async def push(self, cache: Path, name: str) -> str:
        """Pack `cache` and push it as `name`; the reference by digest that the node knows it by."""
        options = ClientOptions(plain_http=True)
        report = await pack_directory(cache, f"{self._registry}/{name}", options=options)
        return f"{self._service}/{name.partition(':')[0]}@{report.digest}"

    async def make_cache(self, namespace: str, name: str, image: str) -> None:
        """A cache that is staged when the first pod comes, and that pods wait for; returns once pods can come."""
        spec = {"image": image, "staging": "OnDemand", "whenUnavailable": "Wait"}
        await self._client.create(CACHES, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})
        await until(
            lambda: self._found(CACHES, name, namespace),
            lambda cache: cache is not None and image.endswith(cache.status.resolved_digest or "-"),
            f"{name} is resolved",
        )
        await until(
            lambda: self._found(_CLAIMS, name, namespace),
            lambda claim: claim is not None and claim.status.phase == "Bound",
            f"the claim {name} is bound",
        )

    async def _found(self, resource: Resource[T], name: str, namespace: str) -> T | None:
        try:
            return await self._client.get(resource, name, namespace)
        except NotFoundError:
            return None

    async def metrics(self) -> str:
        """What the agent measures, in Prometheus' text."""
        address = f"http://{self._agent_address}:8081/metrics"

        def read() -> str:
            with urllib.request.urlopen(address, timeout=10) as answer:
                return str(answer.read(), "utf-8")

        return await asyncio.to_thread(read)

    async def staging_seconds(self) -> float:
        """Seconds that the agent has spent staging."""
        found = re.search(r"^gkm_staging_seconds_sum (\S+)$", await self.metrics(), re.MULTILINE)
        return float(found[1]) if found else 0.0
