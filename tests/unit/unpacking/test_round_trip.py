"""What was packed comes out again, byte for byte, however the stream is cut."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gkm.images.filelist import LIST_PATH
from gkm.images.limits import Compression
from gkm.images.pack import pack
from gkm.images.unpack import LayerStream
from support import archives

COMPONENT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/"), min_size=1, max_size=60
).filter(lambda text: text not in (".", "..") and not text.startswith(".wh.") and len(text.encode()) < 200)
CONTENT = st.one_of(st.binary(max_size=2000), st.sampled_from([b"", b"\0" * 5000, b"same" * 700]))


def without_conflicts(files: dict[str, bytes]) -> bool:
    """No file is the directory of another."""
    return not any(other.startswith(f"{name}/") for name in files for other in files)


TREES = st.dictionaries(
    st.lists(COMPONENT, min_size=1, max_size=5).map("/".join), CONTENT, min_size=1, max_size=12
).filter(without_conflicts)
COMPRESSIONS: list[Compression] = ["zstd", "gzip"]


@settings(deadline=None, max_examples=40)
@given(files=TREES, compression=st.sampled_from(COMPRESSIONS), cut=st.integers(1, 3000))
def test_packed_files_come_out_again(files: dict[str, bytes], compression: Compression, cut: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        image = pack(
            {f"c/{path}": content for path, content in files.items()},
            labels={},
            title=None,
            compression=compression,
            into=scratch,
        )
        (layer,) = archives.packed_layers(image)
        whole = b"".join(layer.chunks)
        layer = LayerStream(layer.media_type, archives.chunks(whole, cut), layer.diff_id)
        result = archives.unpacked(
            scratch / "tree", layer, select=lambda path: path[2:] if path.startswith("c/") else None
        )
        assert archives.contents(scratch / "tree") == files
        assert {member.path: (member.bytes, member.digest) for member in result.members} == {
            path: (len(content), archives.digest(content)) for path, content in files.items()
        }
        assert (result.files, result.bytes) == (len(files), sum(map(len, files.values())))


def test_executability_travels(tmp_path: Path, umask_022: None) -> None:
    (tmp_path / "run").write_bytes(b"#!")
    (tmp_path / "run").chmod(0o700)
    (tmp_path / "data").write_bytes(b"")
    image = pack({"run": tmp_path / "run", "data": tmp_path / "data"}, labels={}, title=None, into=tmp_path)
    result = archives.unpacked(tmp_path / "tree", *archives.packed_layers(image))
    assert {member.path: member.executable for member in result.members if member.path != LIST_PATH} == {
        "run": True,
        "data": False,
    }
    assert (tmp_path / "tree/run").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "tree/data").stat().st_mode & 0o777 == 0o644
