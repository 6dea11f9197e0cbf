"""What the documents promise about the repository is true of it."""

import re
import subprocess
from pathlib import Path

import pytest

from support.parts import REPOSITORY

DOCUMENTS = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_relative_links_lead_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (document.parent / target).exists(), f"{document}: {target}"


def test_every_path_the_map_names_exists() -> None:
    text = (REPOSITORY / "docs" / "map.md").read_text(encoding="utf-8")
    paths = [p for p in re.findall(r"`([^`\s]+)`", text) if "/" in p]
    assert len(paths) > 10
    for path in paths:
        assert (REPOSITORY / path).exists(), path


def test_every_room_is_on_the_map() -> None:
    text = (REPOSITORY / "docs" / "map.md").read_text(encoding="utf-8")
    rooms = [p.parent.name for p in (REPOSITORY / "src" / "gkm").glob("*/__init__.py")]
    assert rooms
    for room in rooms:
        assert f"`src/gkm/{room}/`" in text, f"the map does not name the room {room}"


def test_every_make_target_is_in_the_help() -> None:
    makefiles = [REPOSITORY / "Makefile", *REPOSITORY.glob("*/*.mk"), *REPOSITORY.glob("*/*/*.mk")]
    declared = {
        name
        for makefile in makefiles
        for line in re.findall(r"^\.PHONY: (.+)$", makefile.read_text(encoding="utf-8"), re.MULTILINE)
        for name in line.split()
    }
    shown = subprocess.run(["make", "-s", "help"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert declared == {line.split()[0] for line in shown.stdout.splitlines()}


def test_shell_blocks_of_the_readme_name_targets_that_exist() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"^make ([a-z-]+)", readme, re.MULTILINE))
    assert {"demo", "test"} <= targets
    for target in targets:
        subprocess.run(["make", "-n", target], cwd=REPOSITORY, capture_output=True, check=True)


def test_no_text_names_a_package_index_or_a_private_path() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    forbidden = re.compile("|".join(["pypi" + r"\.org", "python" + r"hosted\.org", "/work" + "/main"]))
    for name in filter(None, tracked):
        path = REPOSITORY / name
        if path.is_file():
            assert not forbidden.search(path.read_text(encoding="utf-8", errors="replace")), name
