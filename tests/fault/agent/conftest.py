"""A store on a path that every user may reach, and the ids of children."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gkm.agent.confinement import Identity
from support import parts


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A directory that any uid may pass through, unlike pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="gkm-test-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)
    assert not path.exists()


@pytest.fixture
def child() -> Identity:
    """The ids that children take on, and no other test's do, for these tests look who is left; needs root."""
    parts.need_root()
    return Identity(64_211, 64_212)
