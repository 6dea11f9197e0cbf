"""Packs files into a cache image: one layer, one config, one manifest, the same bytes for the same files.

The digest depends on names, contents and executability of the files, the labels, the title and the
compression, and on nothing else: not on times, owners, umask, the order of directories, the host or the
destination (docs/adr/0011). Regular files and directories only.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gkm.base.digests import digest_bytes
from gkm.images import media, tarwrite
from gkm.images.compression import LAYER_TYPES, make_compressor
from gkm.images.filelist import LIST_LABEL, LIST_PATH, encode_list
from gkm.images.limits import Compression, Limits
from gkm.images.machine import image_architecture
from gkm.images.media import Descriptor
from gkm.images.members import split_name
from gkm.images.pack_errors import UnpackableError
from gkm.images.sources import SourceFile, in_order, read_again, survey
from gkm.images.unpack_errors import LayerError

__all__ = ["Compression", "PackedImage", "pack"]

_OS = "linux"


@dataclass(frozen=True, slots=True)
class PackedImage:
    """An image ready to be written to a registry or layout directory: `blobs` first, `manifest` last."""

    manifest: bytes
    manifest_descriptor: Descriptor
    config: bytes
    blobs: tuple[tuple[Descriptor, Path], ...]
    """The layer and the config, each as a file in the directory that was given to `pack`."""
    layers: tuple[Descriptor, ...]
    files: int
    """How many files were packed, without the list of digests."""
    files_bytes: int
    """The sum of their sizes."""

    @property
    def digest(self) -> str:
        """The image's digest: that of its manifest."""
        return self.manifest_descriptor.digest

    @property
    def size(self) -> int:
        """Bytes that the whole image takes in a registry."""
        return self.manifest_descriptor.size + sum(descriptor.size for descriptor, _ in self.blobs)


def pack(
    files: Mapping[str, Path | bytes],
    *,
    labels: Mapping[str, str],
    title: str | None,
    compression: Compression = "zstd",
    into: Path,
) -> PackedImage:
    """Make an image of `files` (path in the image to a file or to bytes) in the directory `into`.

    `title` becomes the image's ``org.opencontainers.image.title``, as label and annotation; taken from the
    destination's name it would make the digest depend on it. Of a file's mode only its owner's execute bit
    counts; bytes are not executable. Blocks: call it in a thread.

    Raises:
        UnpackableError: there are no files, or an image of them could not be unpacked again.
        SourceChangedError: a file changed meanwhile.
        OSError: a file cannot be read, or `into` cannot be written.
    """
    limits = Limits()
    directories = _directories(files, limits)
    ordered = in_order(survey(files))
    listed = encode_list((file.path, file.digest) for file in ordered)
    layer = _write_layer(_archive(directories, ordered, listed), compression, limits, into)
    told = {media.TITLE: title} if title else {}
    config = media.encode(
        media.ImageConfig(
            architecture=image_architecture(file.machine for file in ordered),
            os=_OS,
            config=media.ContainerConfig(labels={**labels, **told, LIST_LABEL: digest_bytes(listed)}),
            rootfs=media.RootFS(diff_ids=(layer.diff_id,)),
        )
    )
    config_descriptor = _describe(media.OCI_CONFIG, config)
    config_path = into / _file_name(config_descriptor.digest)
    try:
        config_path.write_bytes(config)
    except BaseException:
        config_path.unlink(missing_ok=True)
        layer.path.unlink(missing_ok=True)
        raise
    manifest = media.encode(
        media.Manifest(
            schema_version=2,
            media_type=media.OCI_MANIFEST,
            config=config_descriptor,
            layers=(layer.descriptor,),
            annotations=told,
        )
    )
    return PackedImage(
        manifest=manifest,
        manifest_descriptor=_describe(media.OCI_MANIFEST, manifest),
        config=config,
        blobs=((layer.descriptor, layer.path), (config_descriptor, config_path)),
        layers=(layer.descriptor,),
        files=len(ordered),
        files_bytes=sum(file.size for file in ordered),
    )


def _directories(files: Mapping[str, Path | bytes], limits: Limits) -> list[str]:
    """See that `files` can be unpacked again; returns all directories of the archive, parents first."""
    if not files:
        raise UnpackableError("there are no files to pack")
    directories = {LIST_PATH.rpartition("/")[0]}
    for path in files:
        try:
            parts = split_name(path, limits)
        except LayerError as error:
            raise UnpackableError(f"{error}: rename it, or leave it out of what is packed") from error
        if not parts or "/".join(parts) != path or path == LIST_PATH:
            raise UnpackableError(f"{path!r} cannot be the path of a packed file")
        directories.update("/".join(parts[:depth]) for depth in range(1, len(parts)))
    if both := directories & files.keys():
        raise UnpackableError(f"{min(both)!r} would be a file and a directory at once")
    if len(files) + len(directories) >= limits.entries:
        raise UnpackableError(f"an image holds at most {limits.entries} files and directories: pack fewer")
    return sorted(directories)


def _archive(
    directories: Sequence[str], files: Sequence[SourceFile], listed: bytes
) -> Iterator[bytes | memoryview]:
    """The pieces of the tar stream: every directory, every file, the list of digests."""
    for directory in directories:
        yield tarwrite.directory_header(directory)
    for file in files:
        yield tarwrite.file_header(file.path, file.size, executable=file.executable)
        yield from read_again(file)
        yield tarwrite.padding(file.size)
    yield tarwrite.file_header(LIST_PATH, len(listed), executable=False)
    yield listed
    yield tarwrite.padding(len(listed)) + tarwrite.END


@dataclass(frozen=True, slots=True)
class _Layer:
    descriptor: Descriptor
    path: Path
    diff_id: str


def _write_layer(
    pieces: Iterator[bytes | memoryview], compression: Compression, limits: Limits, into: Path
) -> _Layer:
    """Compress `pieces` into a file of `into`."""
    compressor = make_compressor(compression)
    plain, stored = hashlib.sha256(), hashlib.sha256()
    plain_size = stored_size = 0
    fd, name = tempfile.mkstemp(prefix=".layer-", dir=into)
    temporary = Path(name)
    try:
        with os.fdopen(fd, "wb") as file:
            for piece in pieces:
                plain.update(piece)
                plain_size += len(piece)
                data = compressor.compress(piece)
                stored.update(data)
                stored_size += file.write(data)
            data = compressor.flush()
            stored.update(data)
            stored_size += file.write(data)
        _check_size(limits, compression, stored_size, plain_size)
        digest = f"sha256:{stored.hexdigest()}"
        path = temporary.rename(into / _file_name(digest))
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    descriptor = Descriptor(media_type=LAYER_TYPES[compression], digest=digest, size=stored_size)
    return _Layer(descriptor, path, f"sha256:{plain.hexdigest()}")


def _check_size(limits: Limits, compression: Compression, stored: int, plain: int) -> None:
    if plain > limits.bytes:
        raise UnpackableError(f"an image holds at most {limits.bytes} bytes, not {plain}: pack fewer files")
    if limits.expands_too_far(compression, stored, plain):
        raise UnpackableError(
            f"{plain} bytes became {stored}: readers would take the image for a bomb. "
            + ("Pack it with gzip." if compression == "zstd" else "Pack fewer files.")
        )


def _describe(media_type: str, data: bytes) -> Descriptor:
    return Descriptor(media_type=media_type, digest=digest_bytes(data), size=len(data))


def _file_name(digest: str) -> str:
    return digest.removeprefix("sha256:")
