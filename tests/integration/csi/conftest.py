"""A node, at whose end nothing may be left."""

from collections.abc import Iterator

import pytest

from support.csi_node import Node
from support.csi_node import node as fresh_node


@pytest.fixture
def node() -> Iterator[Node]:
    """A node whose pods wait not at all and may add 16 MiB."""
    with fresh_node(missing_wait_seconds=0.0, write_limit_bytes=16 << 20) as made:
        yield made
        assert made.mounts() == []
        assert made.leftovers() == []
