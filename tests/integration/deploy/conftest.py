"""A control plane on which GKM is installed without its processes."""

from collections.abc import Iterator

import pytest

from support.devcluster import Cluster
from support.installed import guarded


@pytest.fixture(scope="module")
def installed(control_plane: Cluster) -> Iterator[Cluster]:
    with guarded(control_plane):
        yield control_plane
