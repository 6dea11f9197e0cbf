"""What the archive of a packed image looks like to other readers."""

import io
import random
import subprocess
import tarfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gkm.images import tarwrite
from gkm.images.filelist import LIST_PATH
from gkm.images.pack import pack
from support import archives

COMPONENT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/"), min_size=1, max_size=40
).filter(lambda text: text not in (".", "..") and not text.startswith(".wh."))
PATHS = st.lists(COMPONENT, min_size=1, max_size=6).map("/".join)


@given(PATHS, st.integers(0, 2**40), st.booleans())
def test_python_reads_every_header(path: str, size: int, executable: bool) -> None:
    header = tarwrite.file_header(path, size, executable=executable)
    with tarfile.open(fileobj=io.BytesIO(header + tarwrite.END)) as archive:
        member = archive.next()
    assert member is not None
    assert (member.name, member.size, member.mode) == (path, size, 0o755 if executable else 0o644)
    assert (member.uid, member.gid, member.uname, member.gname, member.mtime) == (0, 0, "", "", 0)
    assert member.isreg()


@given(PATHS)
def test_python_reads_every_directory_header(path: str) -> None:
    with tarfile.open(fileobj=io.BytesIO(tarwrite.directory_header(path) + tarwrite.END)) as archive:
        member = archive.next()
    assert member is not None
    assert member.name == path
    assert member.isdir()


def archive_of(files: dict[str, Path | bytes], into: Path) -> bytes:
    """The uncompressed layer."""
    image = pack(files, labels={}, title=None, compression="gzip", into=into)
    return subprocess.run(["gzip", "-dc", image.blobs[0][1]], capture_output=True, check=True).stdout


def test_parents_come_first_and_identical_files_side_by_side(tmp_path: Path) -> None:
    same = b"same" * 1000
    archive = archive_of(
        {"c/a": same, "c/b": b"other", "c/d": same, "c/0": b"another", "c/sub/z": same}, tmp_path
    )
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        names = opened.getnames()
    assert names == [
        *("c", "c/sub", "io.gkm.manifest"),
        *("c/0", "c/a", "c/d", "c/sub/z", "c/b", LIST_PATH),
    ]


def test_identical_files_cost_next_to_nothing(tmp_path: Path) -> None:
    """Files far larger than gzip's window, smaller than the 16 MiB that zstd is told to look back."""
    block = random.Random(1).randbytes(3 << 20)  # does not compress
    once = pack({"c/00": block}, labels={}, title=None, into=tmp_path)
    often = pack({f"c/{number:02}": block for number in range(8)}, labels={}, title=None, into=tmp_path)
    assert often.files_bytes == 8 * once.files_bytes
    assert often.size < once.size * 1.01


def test_anyone_can_check_the_files_with_sha256sum(tmp_path: Path) -> None:
    files: dict[str, Path | bytes] = {
        "io.triton.cache/plain": b"1",
        "io.triton.cache/with space": b"2",
        "io.triton.cache/back\\slash": b"3",
        "io.triton.cache/ünïcode": b"4",
        "io.triton.cache/" + "long/" * 30 + "x": b"5",
    }
    image = pack(files, labels={}, title=None, into=tmp_path)
    root = tmp_path / "root"
    archives.unpacked(root, *archives.packed_layers(image))
    command = ["sha256sum", "--check", "--strict", LIST_PATH]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.count(": OK\n") == len(files)

    (root / "io.triton.cache/back\\slash").write_bytes(b"4")
    assert subprocess.run(command, cwd=root, capture_output=True, check=False).returncode == 1
