"""Archives made in the test, honest and hostile, and one way to unpack them."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from gkm.images import media
from gkm.images.limits import Compression, Limits
from gkm.images.pack import PackedImage
from gkm.images.unpack import LayerStream, UnpackResult, unpack

try:
    from compression import zstd
except ImportError:
    from backports import zstd

BLOCK = 512
END = bytes(2 * BLOCK)
LAYER_TYPE: dict[Compression | None, str] = {
    None: media.OCI_LAYER,
    "gzip": media.OCI_LAYER_GZIP,
    "zstd": media.OCI_LAYER_ZSTD,
}


def header(
    name: bytes | str, *, size: int = 0, kind: bytes = b"0", mode: int = 0o644, link: str = ""
) -> bytes:
    """One ustar header as the standard library makes it, with any typeflag; `name` has at most 100 bytes."""
    info = tarfile.TarInfo("placeholder")
    info.size, info.mode, info.linkname = size, mode, link
    block = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    raw = name.encode() if isinstance(name, str) else name
    block[:100] = raw.ljust(100, b"\0")
    block[156:157] = kind
    return with_checksum(block)


def with_checksum(block: bytes | bytearray) -> bytes:
    """`block` with the checksum that its bytes have."""
    changed = bytearray(block)
    changed[148:156] = b" " * 8
    changed[148:156] = b"%06o\0 " % sum(changed)
    return bytes(changed)


def padded(data: bytes) -> bytes:
    """`data` filled up to whole blocks."""
    return data + bytes(-len(data) % BLOCK)


def file(name: bytes | str, content: bytes = b"content", mode: int = 0o644) -> bytes:
    """A regular file."""
    return header(name, size=len(content), mode=mode) + padded(content)


def directory(name: str) -> bytes:
    """A directory."""
    return header(name + "/", kind=b"5", mode=0o755)


def pax(records: Mapping[str, bytes | str], kind: bytes = b"x") -> bytes:
    """An extended header with `records`."""
    lines = b""
    for key, value in records.items():
        rest = key.encode() + b"=" + (value.encode() if isinstance(value, str) else value) + b"\n"
        length = len(rest) + 2
        while len(str(length)) + 1 + len(rest) != length:
            length += 1
        lines += b"%d " % length + rest
    return header("pax", size=len(lines), kind=kind) + padded(lines)


def tree_archive(files: Mapping[str, bytes], dialect: int = tarfile.PAX_FORMAT) -> bytes:
    """An archive of `files` as Python's own `tarfile` writes it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=dialect) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def compress(archive: bytes, compression: Compression | None) -> bytes:
    """`archive` compressed by others' code than that under test."""
    if compression == "gzip":
        return gzip.compress(archive, mtime=0)
    return zstd.compress(archive) if compression == "zstd" else archive


def layer(
    archive: bytes, compression: Compression | None = None, *, cut: int = 1000, diff_id: str | None = None
) -> LayerStream:
    """A layer of `archive`, whose compressed bytes come in chunks of `cut`."""
    return LayerStream(LAYER_TYPE[compression], chunks(compress(archive, compression), cut), diff_id)


def chunks(data: bytes, cut: int = 1000) -> list[bytes]:
    """`data` in chunks."""
    return [data[start : start + cut] for start in range(0, len(data), cut)]


def digest(data: bytes) -> str:
    """The sha256 digest of `data`."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def packed_layers(image: PackedImage) -> list[LayerStream]:
    """The layers of a packed image, with the diff IDs of its config."""
    diff_ids = media.decode_config(image.config).rootfs.diff_ids
    paths = {descriptor.digest: path for descriptor, path in image.blobs}
    return [
        LayerStream(descriptor.media_type, chunks(paths[descriptor.digest].read_bytes(), 65536), diff_id)
        for descriptor, diff_id in zip(image.layers, diff_ids, strict=True)
    ]


def everything(name: str) -> str | None:
    """A `select` that takes every member as it is."""
    return name


def unpacked(
    destination: Path,
    *layers: LayerStream,
    select: Callable[[str], str | None] = everything,
    limits: Limits | None = None,
    open_to_all: bool = False,
) -> UnpackResult:
    """`unpack` with everything selected."""
    return unpack(layers, destination, select=select, limits=limits, open_to_all=open_to_all)


def contents(root: Path) -> dict[str, bytes]:
    """Every file below `root`, by relative path."""
    return {
        str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }


def open_descriptors() -> int:
    """How many file descriptors this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def write_tree(root: Path, files: Mapping[str, bytes]) -> Path:
    """Write `files` below `root`."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def image_files(root: Path, prefix: str) -> dict[str, Path | bytes]:
    """The files below `root` as `pack` takes them."""
    return {f"{prefix}/{path.relative_to(root)}": path for path in root.rglob("*") if path.is_file()}


def joined(parts: Iterable[bytes]) -> bytes:
    """One whole archive of members."""
    return b"".join(parts) + END
