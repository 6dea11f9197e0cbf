"""A store on a path that every user may reach, and proof that nothing was left behind."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gkm.store.linux.mountinfo import mounts
from gkm.store.mode import Mode
from gkm.store.store import Store
from support.parts import missing
from support.users import OrdinaryUser, ordinary_user


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
    """An empty store. At the end nothing of it is mounted, half-made or waiting to be deleted."""
    opened = Store.open(open_path / "store")
    yield opened
    assert [m for m in mounts() if str(open_path) in m.target + m.options] == []
    for part in (opened.layout.staging, opened.layout.mounts):
        assert list(part.iterdir()) == [], part
    assert [p.name for p in opened.layout.trash.iterdir() if p.name != ".lock"] == []


@pytest.fixture(params=list(Mode))
def mode(request: pytest.FixtureRequest, store: Store) -> Mode:
    """Each mode that this process may use; root may use all."""
    wanted: Mode = request.param
    best = store.probe_modes().mode
    if list(Mode).index(wanted) < list(Mode).index(best):
        missing(f"mode {wanted}", f"the best here is {best}; run `make test` as root to include it")
    return wanted


@pytest.fixture
def user() -> Iterator[OrdinaryUser]:
    """An ordinary user."""
    with ordinary_user() as somebody:
        yield somebody
