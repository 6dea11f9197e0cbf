"""In a plain copy, what the workload made is told from what it found."""

import os
from pathlib import Path

from gkm.store.gather import gather
from gkm.store.plain_copy import fill_view
from support.staging import write_files
from support.views import everything


def copied(tmp_path: Path, *layers: dict[str, bytes]) -> tuple[Path, list[Path], Path]:
    """A view of `layers` (top first), the layers, and an empty upper."""
    lowers = [write_files(tmp_path / f"lower-{n}", layer) for n, layer in enumerate(layers)]
    view, upper = tmp_path / "view", tmp_path / "upper"
    view.mkdir()
    upper.mkdir()
    fill_view(lowers, view)
    return view, lowers, upper


def test_the_upper_layer_covers_the_lower(tmp_path: Path) -> None:
    view, _, _ = copied(tmp_path, {"a/group": b"new"}, {"a/group": b"old", "a/b/code": b"code"})
    assert everything(view) == {"a/group": b"new", "a/b/code": b"code"}


def test_nothing_done_nothing_gathered(tmp_path: Path) -> None:
    view, lowers, upper = copied(tmp_path, {"a/group": b"new"}, {"a/group": b"old", "code": b"code"})
    gather(view, lowers, upper)
    assert list(upper.iterdir()) == []


def test_new_changed_and_remade_files_are_gathered_with_their_times(tmp_path: Path) -> None:
    view, lowers, upper = copied(
        tmp_path, {"changed": b"old", "remade": b"same", "chmod": b"x", "gone": b"x"}
    )
    write_files(view, {"changed": b"new", "dir/new": b"new", "remade": b"same"})
    os.utime(view / "remade", ns=(5, 5))
    (view / "chmod").chmod(0o600)
    (view / "gone").unlink()
    gather(view, lowers, upper)
    gather(view, lowers, upper)
    assert everything(upper) == {"changed": b"new", "dir/new": b"new", "remade": b"same"}
    assert (upper / "remade").stat().st_mtime_ns == 5


def test_same_size_and_time_but_other_bytes_is_a_change(tmp_path: Path) -> None:
    view, lowers, upper = copied(tmp_path, {"file": b"old"})
    times = (view / "file").stat()
    (view / "file").write_bytes(b"new")
    os.utime(view / "file", ns=(times.st_atime_ns, times.st_mtime_ns))
    gather(view, lowers, upper)
    assert everything(upper) == {"file": b"new"}


def test_links_and_special_files_are_left_alone(tmp_path: Path) -> None:
    view, lowers, upper = copied(tmp_path, {"file": b"x"})
    secret = write_files(tmp_path / "outside", {"secret": b"secret", "dir/secret": b"secret"})
    (view / "link").symlink_to(secret / "secret")
    (view / "directory").symlink_to(secret / "dir")
    os.mkfifo(view / "fifo")
    gather(view, lowers, upper)
    assert list(upper.iterdir()) == []
