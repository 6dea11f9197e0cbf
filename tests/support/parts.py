"""Real parts that a test needs, and what happens where one is missing.

On CI (``CI=true``) a missing part is a failure: a skip there would hide that nothing was tested.
Elsewhere the test is skipped with the words that say how to get the part.
"""

import os
import shutil
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def on_ci() -> bool:
    """Whether this run must not skip anything real."""
    return os.environ.get("CI") == "true"


def missing(part: str, remedy: str) -> None:
    """Fail on CI, skip elsewhere: `part` is not here, `remedy` says how to get it."""
    text = f"{part} is not on this machine: {remedy}"
    if on_ci():
        pytest.fail(text, pytrace=False)
    pytest.skip(text)


def need_root() -> None:
    """The test mounts filesystems or becomes another user."""
    if os.geteuid() != 0:
        missing("root", "run `make test` as root to include it")


def need_program(name: str, package: str) -> str:
    """The path of the program `name`, from the Debian package `package`."""
    path = shutil.which(name)
    if path is None:
        missing(name, f"run `make system-packages` as root, or install Debian's {package}")
        raise AssertionError("unreachable")
    return path


def samples() -> Path:
    """The directory of sample caches that are not part of this repository.

    ``$GKM_TESTDATA``, else ``../shared/testdata`` beside the checkout. Tests pass without it, so it is
    skipped on CI too where it does not exist.
    """
    path = Path(os.environ.get("GKM_TESTDATA") or REPOSITORY.parent / "shared" / "testdata")
    if not path.is_dir():
        pytest.skip("sample caches are not here: set GKM_TESTDATA to their directory")
    return path
