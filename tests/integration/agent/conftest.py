"""A store on a path that every user may reach, a real registry, and the ids of children."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gkm.agent.confinement import Identity
from gkm.store.store import Store
from support import parts
from support.registry import RunningRegistry, running_registry

CHILD = Identity(64_201, 64_202)


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A directory that any uid may pass through, unlike pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="gkm-test-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)
    assert not path.exists()


@pytest.fixture
def store(open_path: Path) -> Iterator[Store]:
    """An empty store, which at the end holds nothing half-made."""
    opened = Store.open(open_path / "store")
    yield opened
    assert list(opened.layout.staging.iterdir()) == []
    assert [p.name for p in opened.layout.trash.iterdir() if p.name != ".lock"] == []


@pytest.fixture(scope="module")
def registry() -> Iterator[RunningRegistry]:
    """A registry that anyone may read and write."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="gkm-registry-"))
        yield stack.enter_context(running_registry(Path(directory)))


@pytest.fixture
def child() -> Identity:
    """The ids that children take on; needs root."""
    parts.need_root()
    return CHILD
