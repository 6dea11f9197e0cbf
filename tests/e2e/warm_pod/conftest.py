"""A cluster with GKM in it, installed as docs/install.md says: from its own images, by the script that people run."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import parts
from support.devcluster import Cluster
from support.installed import apply
from support.leaks import nothing_leaks
from support.warm_pods import all_gone, cache, new_namespace


@dataclass(frozen=True)
class Installed:
    """The cluster, and the image of a cache of real kernels in a registry that its nodes reach."""

    cluster: Cluster
    image: str


@pytest.fixture(scope="session")
def gkm(two_nodes: Cluster) -> Iterator[Installed]:
    """GKM on the cluster. What tests leave is deleted while others run; in the end nothing of it may be left."""
    for program in ("mmdebstrap", "buildah"):
        parts.need_program(program, program)
    for image in ("gkm-operator", "gkm-agent"):
        archive = parts.REPOSITORY / "build" / "images" / f"{image}.tar"
        _run(parts.REPOSITORY / "deploy/images/build", image, f"gkm.test/{image}:dev", archive)
    layout = two_nodes.layout
    told = _run(
        parts.REPOSITORY / "deploy/devcluster-install",
        CLUSTER=layout.name,
        GKM_DEVCLUSTER_STATE=str(layout.root),
    )
    found = re.search(r"CACHE_IMAGE=(\S+)", told)
    assert found, told
    yield Installed(two_nodes, found[1])
    all_gone(two_nodes)
    nothing_leaks(two_nodes)


@pytest.fixture
def empty_namespace(gkm: Installed) -> Iterator[str]:
    """A namespace of the test's own, deleted as people do it: with everything in it, caches that pods use too."""
    name = new_namespace(gkm.cluster)
    yield name
    gkm.cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def namespace(gkm: Installed, empty_namespace: str) -> str:
    """A namespace with the cache ``kernels`` in it."""
    apply(gkm.cluster, cache("GKMCache", "kernels", empty_namespace, image=gkm.image))
    return empty_namespace


def _run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=parts.REPOSITORY,
        env={**os.environ, "PYTHON": sys.executable, **environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-20000:]}"
    return done.stdout
