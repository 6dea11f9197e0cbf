"""Small downloads that would become large: refused early, with little memory and little disk."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gkm.images.limits import Compression, Limits
from gkm.images.unpack import LayerStream
from gkm.images.unpack_errors import ExpandsTooFarError, TooManyBytesError
from support import archives
from support.archives import LAYER_TYPE, file, header, joined, layer, unpacked

MIB = 1 << 20


def zeros_bomb(size: int, compression: Compression) -> bytes:
    """A compressed archive of one file of `size` zeros, in frames of 16 MiB."""
    pieces = [header("zeros", size=size), bytes(16 * MIB), bytes(1024)]
    head, zeros, end = (archives.compress(piece, compression) for piece in pieces)
    return head + zeros * (size // (16 * MIB)) + end


@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_a_gigabyte_of_zeros(tmp_path: Path, compression: Compression) -> None:
    bomb = zeros_bomb(1024 * MIB, compression)
    assert len(bomb) < 2 * MIB
    taken: list[int] = []

    def counted() -> Iterator[bytes]:
        for chunk in archives.chunks(bomb, 4096):
            taken.append(len(chunk))
            yield chunk

    with pytest.raises(ExpandsTooFarError):
        unpacked(tmp_path / "t", LayerStream(LAYER_TYPE[compression], counted()))
    assert sum(taken) < len(bomb) * 0.6
    assert not (tmp_path / "t").exists()


def test_a_repetitive_cache_is_no_bomb(tmp_path: Path) -> None:
    """The same file 150 times: a ratio of 150 below the level where it says anything."""
    same = os.urandom(100_000)
    archive = joined(file(f"{number}", same) for number in range(150))
    assert len(archive) / len(archives.compress(archive, "zstd")) > 100
    assert unpacked(tmp_path / "t", layer(archive, "zstd")).files == 150


def test_a_file_larger_than_allowed_is_refused_at_its_header(tmp_path: Path) -> None:
    """No byte of it is asked for."""

    def announced() -> Iterator[bytes]:
        yield header("k", size=2 * MIB)
        pytest.fail("the content was asked for")

    with pytest.raises(TooManyBytesError, match="'k' alone"):
        unpacked(tmp_path / "t", LayerStream(LAYER_TYPE[None], announced()), limits=Limits(bytes=MIB))


_MEASURE = """
import resource, sys
from pathlib import Path
from gkm.images.unpack import LayerStream, unpack

def chunks():
    with Path(sys.argv[2]).open("rb") as file:
        while chunk := file.read(1 << 20):
            yield chunk

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

before = peak()
try:
    unpack([LayerStream(sys.argv[1], chunks())], Path(sys.argv[3]), select=lambda name: name)
except Exception as error:
    print(type(error).__name__, peak() - before)
else:
    print("unpacked", peak() - before)
"""


def growth(media_type: str, data: bytes, scratch: Path) -> tuple[str, int]:
    """What unpacking `data` in a process of its own ends in, and by how many MiB its memory grew."""
    (scratch / "layer").write_bytes(data)
    command = [sys.executable, "-c", _MEASURE, media_type, scratch / "layer", scratch / "tree"]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return out[0], int(out[1])


@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_memory_stays_small_under_a_bomb(tmp_path: Path, compression: Compression) -> None:
    bomb = zeros_bomb(1024 * MIB, compression)
    outcome, mib = growth(LAYER_TYPE[compression], bomb, tmp_path)
    assert outcome == "ExpandsTooFarError"
    assert mib < 48


def test_memory_stays_small_with_a_large_file(tmp_path: Path) -> None:
    data = header("k", size=64 * MIB) + os.urandom(8 * MIB) * 8 + bytes(1024)
    outcome, mib = growth(LAYER_TYPE[None], data, tmp_path)
    assert (outcome, (tmp_path / "tree/k").stat().st_size) == ("unpacked", 64 * MIB)
    assert mib < 16
