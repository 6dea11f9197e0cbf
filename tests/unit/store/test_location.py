"""Which store is meant when nobody says."""

from pathlib import Path

import pytest

from gkm.store.location import default_store


@pytest.mark.parametrize(
    ("environ", "uid", "expected"),
    [
        ({"GKM_STORE": "/some/where"}, 0, "/some/where"),
        ({"GKM_STORE": "/some/where", "XDG_DATA_HOME": "/data"}, 1000, "/some/where"),
        ({"XDG_DATA_HOME": "/data", "HOME": "/root"}, 0, "/var/lib/gkm"),
        ({"XDG_DATA_HOME": "/data", "HOME": "/home/a"}, 1000, "/data/gkm"),
        ({"HOME": "/home/a"}, 1000, "/home/a/.local/share/gkm"),
        ({"GKM_STORE": "", "XDG_DATA_HOME": "", "HOME": "/home/a"}, 1000, "/home/a/.local/share/gkm"),
        ({"XDG_DATA_HOME": "relative/path", "HOME": "/home/a"}, 1000, "/home/a/.local/share/gkm"),
    ],
)
def test_rules_in_order(environ: dict[str, str], uid: int, expected: str) -> None:
    assert default_store(environ, uid=uid) == Path(expected)


def test_a_relative_choice_is_one_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_store({"GKM_STORE": "here"}) == tmp_path / "here"
