"""Fixtures for all tests. Behaviours have their own under `tests/support`."""

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from support import parts

# No test asserts on time, Hypothesis's deadline included: machines are shared.
hypothesis.settings.register_profile("gkm", deadline=None)
hypothesis.settings.load_profile("gkm")

pytest_plugins = ["support.devcluster", "support.figures"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that mostly wait come first: with several workers the others then fill that time."""
    waiting = {item.path for item in items if item.get_closest_marker("waits")}
    items.sort(key=lambda item: item.path not in waiting)


@pytest.fixture(autouse=True)
def _root_marker(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("root"):
        parts.need_root()


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test reads the developer's store, credentials or simulated GPUs."""
    for name in [n for n in os.environ if n.startswith(("GKM_", "TRITON_", "TORCHINDUCTOR_", "VLLM_"))]:
        if name != "GKM_TESTDATA":
            monkeypatch.delenv(name)
    monkeypatch.setenv("GKM_STORE", str(tmp_path / "default-store"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "no-docker-config"))
    monkeypatch.delenv("REGISTRY_AUTH_FILE", raising=False)


@pytest.fixture
def sample_dir() -> Path:
    """The sample caches that live outside the repository; skips where they are absent."""
    return parts.samples()


@pytest.fixture
def umask_022() -> Iterator[None]:
    """A known umask for tests that look at modes."""
    old = os.umask(0o022)
    yield
    os.umask(old)
