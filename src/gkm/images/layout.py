"""An OCI image layout directory as a repository (image-spec, image-layout.md).

Tags are the ``org.opencontainers.image.ref.name`` annotations in ``index.json``. Blobs and the index are
replaced whole; writers of one directory, in whatever process, take turns by a lock on the directory itself,
which leaves no file behind that other tools would wonder about.
"""

import asyncio
import contextlib
import fcntl
import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from gkm.base.digests import digest_bytes
from gkm.base.files import sync_directory, write_atomic
from gkm.images import media
from gkm.images.blobs import file_chunks, open_regular, open_source
from gkm.images.errors import NotALayoutError, NotFoundError, RefusedError, UnavailableError
from gkm.images.layout_index import choose, listed
from gkm.images.media import Descriptor, Index
from gkm.images.reference import LayoutReference, Reference
from gkm.images.repository import BlobSource, Repository
from gkm.images.selection import narrow
from gkm.images.verify import check_bytes, verified

_MARKER = "oci-layout"
_VERSION = "1.0.0"
_INDEX = "index.json"
_EMPTY_INDEX = Index(manifests=(), schema_version=2, media_type=media.OCI_INDEX)


class LayoutRepository:
    """The images of one directory. Reading never changes it; the first write makes it where it is not there.

    The methods' contract is `gkm.images.repository.Repository`'s.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def resolve(self, reference: Reference) -> Descriptor:
        """By digest, by tag, or the only image there; with several and no tag, the one tagged ``latest``."""
        index = await asyncio.to_thread(self._read_index)
        try:
            found = choose(index, LayoutReference(self._directory, reference.tag, reference.digest))
        except NotFoundError:
            if reference.digest is None:
                raise
            found = await asyncio.to_thread(self._describe, reference.digest)
        return await narrow(self, found)

    async def read_manifest(self, descriptor: Descriptor) -> bytes:
        """Read from ``blobs/``."""
        return check_bytes(await asyncio.to_thread(self._read_document, descriptor.digest), descriptor)

    @asynccontextmanager
    async def open_blob(self, descriptor: Descriptor) -> AsyncIterator[AsyncIterator[bytes]]:
        """Stream from ``blobs/``."""
        path = self._path(descriptor.digest)
        async with AsyncExitStack() as stack:
            with _reading(path):
                chunks = await stack.enter_async_context(file_chunks(path))
            guarded = await stack.enter_async_context(aclosing(_guarded(chunks, path)))
            yield await stack.enter_async_context(aclosing(verified(guarded, descriptor)))

    async def has_blob(self, descriptor: Descriptor) -> bool:
        """Whether a file of the digest's name has the right size; its bytes are checked when it is read."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return self._path(descriptor.digest).stat().st_size == descriptor.size
        return False

    async def write_blob(self, descriptor: Descriptor, source: BlobSource) -> None:
        """Write beside the target, sync, rename."""
        if await self.has_blob(descriptor):
            return
        target = self._path(descriptor.digest)
        with _writing(self._directory):
            await asyncio.to_thread(self._create)
            with _incoming(target.parent) as (file, temporary):
                async with open_source(source) as chunks, aclosing(verified(chunks, descriptor)) as good:
                    async for chunk in good:
                        await asyncio.to_thread(file.write, chunk)
                await asyncio.to_thread(_publish, file, temporary, target)

    async def mount_blob(self, descriptor: Descriptor, other: Repository) -> bool:
        """Always False: by a file shared with another directory, damage to one would be damage to both."""
        del descriptor, other
        return False

    async def write_manifest(self, data: bytes, media_type: str, tag: str | None) -> Descriptor:
        """Store it as a blob and list it in the index; an image that had the tag is listed no more."""
        descriptor = Descriptor(media_type=media_type, digest=digest_bytes(data), size=len(data))

        def write() -> None:
            self._create()
            write_atomic(self._path(descriptor.digest), data)
            self._update_index(lambda document: listed(document, descriptor, tag))

        with _writing(self._directory):
            await asyncio.to_thread(write)
        return descriptor

    async def aclose(self) -> None:
        """Nothing is held open."""

    def _path(self, digest: str) -> Path:
        algorithm, _, text = digest.partition(":")
        return self._directory / "blobs" / algorithm / text

    def _read_index(self) -> Index:
        if not self._directory.exists():
            raise NotFoundError(f"there is no directory {self._directory}")
        self._check_marker()
        with _reading(self._directory / _INDEX):
            return media.decode_index(_read_bounded(self._directory / _INDEX))

    def _check_marker(self) -> None:
        try:
            marker = msgspec.json.decode(_read_bounded(self._directory / _MARKER), type=dict[str, Any])
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise NotALayoutError(
                f"{self._directory} is not an OCI image layout: it has no readable {_MARKER!r} file; "
                "name another directory, or a new one to write to"
            ) from error
        if (version := marker.get("imageLayoutVersion")) != _VERSION:
            raise NotALayoutError(
                f"{self._directory} is an image layout of version {version!r}; only {_VERSION} is known"
            )

    def _read_document(self, digest: str) -> bytes:
        with _reading(self._path(digest)):
            return _read_bounded(self._path(digest))

    def _describe(self, digest: str) -> Descriptor:
        """A manifest that the index does not list: one inside an index, or one whose tag moved on."""
        data = self._read_document(digest)
        return Descriptor(media_type=media.document_type(data), digest=digest, size=len(data))

    def _create(self) -> None:
        """Make the directory a layout unless it is one; one that holds anything else is left as it is."""
        self._directory.mkdir(parents=True, exist_ok=True)
        with self._lock():
            if any(not path.name.startswith(".") for path in self._directory.iterdir()):
                self._check_marker()
            else:
                marker = msgspec.json.encode({"imageLayoutVersion": _VERSION})
                write_atomic(self._directory / _MARKER, marker)
            if not (self._directory / _INDEX).exists():
                write_atomic(self._directory / _INDEX, media.encode(_EMPTY_INDEX))
            (self._directory / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)

    def _update_index(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        with self._lock():
            data = _read_bounded(self._directory / _INDEX)
            media.decode_index(data)
            document = msgspec.json.decode(data, type=dict[str, Any])
            write_atomic(self._directory / _INDEX, msgspec.json.encode(change(document)))

    @contextmanager
    def _lock(self) -> Iterator[None]:
        # Taken and left within one thread's call: a cancelled task cannot drop it while the work goes on.
        fd = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def _read_bounded(path: Path) -> bytes:
    """All of a small file; a byte more than documents may have, where it is larger."""
    with open_regular(path) as file:
        return file.read(media.MAX_DOCUMENT_BYTES + 1)


@contextmanager
def _incoming(directory: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """A new file to write in `directory`, gone at the end unless it was renamed."""
    fd, name = tempfile.mkstemp(prefix=".incoming-", dir=directory)
    temporary = Path(name)
    try:
        with os.fdopen(fd, "wb") as file:
            yield file, temporary
    finally:
        temporary.unlink(missing_ok=True)


def _publish(file: BinaryIO, temporary: Path, target: Path) -> None:
    file.flush()
    os.fchmod(file.fileno(), 0o644)
    os.fsync(file.fileno())
    temporary.replace(target)
    sync_directory(target.parent)


async def _guarded(chunks: AsyncIterator[bytes], path: Path) -> AsyncGenerator[bytes, None]:
    with _reading(path):
        async for chunk in chunks:
            yield chunk


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(f"there is no {path}: the layout directory is incomplete") from error
    except OSError as error:
        raise UnavailableError(f"cannot read {path}: {error.strerror or error}") from error


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RefusedError(f"cannot write to {directory}: {error}") from error
