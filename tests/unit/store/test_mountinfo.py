"""Reading /proc/self/mountinfo, whatever paths it holds."""

from pathlib import Path
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from gkm.store.linux import mountinfo
from gkm.store.linux.mountinfo import MountEntry, mounts, parse_mountinfo

# The kernel escapes these four in paths (fs/proc_namespace.c, mangle).
ESCAPED = {" ": "\\040", "\t": "\\011", "\n": "\\012", "\\": "\\134"}
names = st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1).filter(
    lambda name: name not in {".", ".."}
)


def written(text: str) -> str:
    return "".join(ESCAPED.get(char, char) for char in text)


def test_optional_fields_of_any_number_are_passed_over() -> None:
    text = (
        "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:7 - ext3 /dev/root rw,errors=continue\n"
        "40 35 0:39 / /view rw,nosuid,nodev - overlay gkm rw,lowerdir=/a,upperdir=/b,workdir=/c\n"
        "not a line of mountinfo\n"
    )
    assert parse_mountinfo(text) == (
        MountEntry("/mnt2", "ext3", "/dev/root", "rw,errors=continue"),
        MountEntry("/view", "overlay", "gkm", "rw,lowerdir=/a,upperdir=/b,workdir=/c"),
    )


@given(st.lists(names, min_size=1, max_size=5))
def test_any_path_comes_back(parts: list[str]) -> None:
    path = "/" + "/".join(parts)
    line = f"1 2 0:3 / {written(path)} rw - overlay gkm rw,upperdir={written(path)}\n"
    (entry,) = parse_mountinfo(line)
    assert entry.target == path
    assert entry.options == f"rw,upperdir={path}"


@given(names, names)
def test_mounts_below_a_directory_are_told_from_its_neighbours(name: str, other: str) -> None:
    directory = Path(f"/views/{name}")
    targets = [
        f"/views/{name}",
        f"/views/{name}/fs",
        f"/views/{name}{other}",
        f"/{other}/views/{name}",
        "/views",
    ]
    text = "".join(
        f"1 2 0:3 / {written(target)} rw - overlay gkm rw,upperdir={written(str(directory))}\n"
        for target in targets
    )
    with patch.object(mountinfo, "_read", return_value=text):
        found = mountinfo.mounts_below(directory)
        assert found == tuple(e for e in mounts() if Path(e.target).is_relative_to(directory))
    assert [entry.target for entry in found] == targets[:2]


def test_the_real_one_has_a_root() -> None:
    assert "/" in {entry.target for entry in mounts()}
