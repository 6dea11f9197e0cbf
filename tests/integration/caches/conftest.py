"""One real Triton cache for all tests here: two kernels for five GPUs, none of which is present."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.triton_cache import CompileReport, compile_cache

TARGETS = ("sm_80", "sm_90", "sm_100", "gfx942", "gfx1100")


@pytest.fixture(scope="session")
def real_cache(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CompileReport]:
    """The directory of the cache, which no test may write to, and what its compilation reported."""
    directory = tmp_path_factory.mktemp("compiled") / "home" / ".triton" / "cache"
    directory.parent.mkdir(parents=True)
    return directory, compile_cache(directory, TARGETS)


@pytest.fixture
def recompile() -> Callable[..., CompileReport]:
    """Run the same program again with its cache elsewhere; further kernels and options may be named."""

    def run(directory: Path, **wanted: object) -> CompileReport:
        return compile_cache(directory, TARGETS, **wanted)

    return run
