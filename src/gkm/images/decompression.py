"""Layers decompressed as streams, in pieces of bounded size and with bounded memory.

Takes what other tools write, too: gzip of several members (RFC 1952 §2.2) and zstd of several frames,
skippable ones among them (RFC 8878 §3.1). Damage, excess and expansion beyond the limits are errors.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from isal import igzip_lib

from gkm.images import media
from gkm.images.limits import Compression, Limits
from gkm.images.unpack_errors import (
    CorruptLayerError,
    ExpandsTooFarError,
    TooManyBytesError,
    TooManyEntriesError,
    TrailingDataError,
    TruncatedLayerError,
    UnsupportedLayerError,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_READ_TYPES: dict[str, Compression | None] = {
    media.OCI_LAYER: None,
    media.OCI_LAYER_GZIP: "gzip",
    media.OCI_LAYER_ZSTD: "zstd",
    media.DOCKER_LAYER: None,
    media.DOCKER_LAYER_GZIP: "gzip",
    # In no specification, but Docker's own tools and buildah write it.
    media.DOCKER_LAYER + ".zstd": "zstd",
}

# 128 MiB, what the zstd command itself takes without being told; it bounds memory.
_ZSTD_WINDOW_LOG_MAX = 27
_PIECE = 256 << 10
# The decoders copy what they were given and did not use; of short input that is cheap.
_FED = 64 << 10

# The library's stub calls the class an instance.
_ISAL_ERROR: type[Exception] = igzip_lib.IsalError  # type: ignore[assignment]


def layer_compression(media_type: str) -> Compression | None:
    """How a layer of `media_type` is compressed; None for a plain tar.

    Upstream's artefact layers (``application/cache.triton.content.layer.v1+triton``) hold a gzip tar.

    Raises:
        UnsupportedLayerError: GKM reads no such layer.
    """
    if media_type in _READ_TYPES:
        return _READ_TYPES[media_type]
    kind, separator, suffix = media_type.removeprefix("application/cache.").partition(".content.layer.v1+")
    if media_type.startswith("application/cache.") and separator and kind == suffix:
        return "gzip"
    raise UnsupportedLayerError(f"a layer has the media type {media_type!r}: this is not a cache image")


class Meter:
    """Counts what comes out of the decoders of one image, and stops what grows too far."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._bytes = 0

    @property
    def limits(self) -> Limits:
        """What it holds the image to."""
        return self._limits

    @property
    def left(self) -> int:
        """Uncompressed bytes that may still come."""
        return self._limits.bytes - self._bytes

    def count(self, piece: int, compression: Compression | None, taken: int, given: int) -> None:
        """`piece` bytes came out; in this layer so far `taken` went in and `given` came out.

        Raises:
            TooManyBytesError, ExpandsTooFarError
        """
        self._bytes += piece
        if self._bytes > self._limits.bytes:
            raise TooManyBytesError(f"the image unpacks to more than {self._limits.bytes} bytes")
        if self._limits.expands_too_far(compression, taken, given):
            raise ExpandsTooFarError(f"{taken} bytes of {compression} already became {given}: not a cache")


def decompressed(chunks: Iterable[bytes], compression: Compression | None, meter: Meter) -> Iterator[bytes]:
    """The plain bytes of a layer, in pieces of at most 256 KiB, as `chunks` come.

    `chunks` is read to its end, so that a check at the end of it (its digest) takes place.

    Raises:
        CorruptLayerError: the stream breaks its format's rules, or fails its checksum.
        TruncatedLayerError: `chunks` ends within the stream.
        TrailingDataError: other bytes follow the stream.
        TooManyEntriesError: the stream consists of more frames than allowed.
        TooManyBytesError, ExpandsTooFarError: from `meter`.
    """
    fed = _Fed(chunks)
    pieces = iter(fed) if compression is None else _frames(fed, compression, meter.limits.frames)
    given = 0
    for piece in pieces:
        given += len(piece)
        meter.count(len(piece), compression, fed.bytes, given)
        yield piece


class _Fed:
    """`chunks` cut to what a decoder gets at once, and counted."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            for start in range(0, len(chunk), _FED):
                cut = chunk[start : start + _FED]
                self.bytes += len(cut)
                yield cut


class _Decoder(Protocol):
    """What the two libraries' decoders of one frame have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


def _zstd_decoder() -> _Decoder:
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG_MAX}
    return zstd.ZstdDecompressor(options=options)


def _gzip_decoder() -> _Decoder:
    return igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)


def _frames(fed: Iterable[bytes], compression: Compression, most: int) -> Iterator[bytes]:
    """Decode frame after frame (gzip calls them members), at most so many, until `fed` ends."""
    make: Callable[[], _Decoder] = _zstd_decoder if compression == "zstd" else _gzip_decoder
    decoder, begun, given, frames = make(), False, False, 0
    for cut in fed:
        data = cut
        while data or (begun and not decoder.needs_input):
            if not begun and frames and not _may_begin(data[0], compression):
                raise TrailingDataError(f"other bytes follow the {compression} stream")
            try:
                piece = decoder.decompress(data, _PIECE)
            except (zstd.ZstdError, _ISAL_ERROR) as error:
                if frames and not given:
                    raise TrailingDataError(f"other bytes follow the {compression} stream") from error
                raise CorruptLayerError(f"the {compression} stream is damaged: {error}") from error
            if piece:
                yield piece
            elif not data and not decoder.eof and not decoder.needs_input:
                raise CorruptLayerError(f"the {compression} stream makes no progress")
            begun, given, data = True, given or bool(piece), b""
            if decoder.eof:
                data = decoder.unused_data
                decoder, begun, given, frames = make(), False, False, frames + 1
                if frames > most:
                    raise TooManyEntriesError(f"the {compression} stream has more than {most} frames")
    if begun or not frames:
        raise TruncatedLayerError(f"the {compression} stream ends too early: fetch the image again")


def _may_begin(byte: int, compression: Compression) -> bool:
    """Whether a frame can begin with `byte`: the magic numbers of RFC 1952 §2.3.1 and RFC 8878 §3.1."""
    return byte == 0x1F if compression == "gzip" else byte == 0x28 or 0x50 <= byte <= 0x5F
