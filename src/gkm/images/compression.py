"""Layers compressed as streams: the same bytes in give the same bytes out, however they are cut.

That holds on every host for zstd, and for gzip on all x86-64 ones with SSE4.2 (docs/adr/0011). The libraries
come with the wheels, so one release of GKM has one version of each; Python 3.14 brings its own zstd.
"""

import sys
from typing import Protocol

from isal import isal_zlib

from gkm.images import media
from gkm.images.limits import Compression

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LAYER_TYPES: dict[Compression, str] = {"zstd": media.OCI_LAYER_ZSTD, "gzip": media.OCI_LAYER_GZIP}
"""The media types of the layers that GKM writes."""

_ZSTD_LEVEL = 3
# 16 MiB: two identical files of up to 16 MiB side by side are seen as one.
_ZSTD_WINDOW_LOG = 24
# ISA-L's level 3 gives other bytes on CPUs without AVX2; levels 1 and 2 do not (measured, docs/adr/0011).
_GZIP_LEVEL = 2
# A gzip header and trailer around a 32 KiB window, in zlib's way of saying so.
_GZIP_WBITS = 31


class Compressor(Protocol):
    """The part of the libraries' objects that writing a layer uses."""

    def compress(self, data: bytes | memoryview, /) -> bytes:
        """Take `data`; return what is ready."""
        ...

    def flush(self) -> bytes:
        """End the stream; return the rest."""
        ...


def make_compressor(compression: Compression) -> Compressor:
    """A compressor whose output depends on its input alone."""
    if compression == "gzip":
        # Its header has no name, and time 0: "not available" (RFC 1952 §2.3.1).
        gzip: Compressor = isal_zlib.compressobj(_GZIP_LEVEL, isal_zlib.DEFLATED, _GZIP_WBITS)
        return gzip
    parameter = zstd.CompressionParameter
    options: dict[int, int] = {
        parameter.compression_level: _ZSTD_LEVEL,
        parameter.window_log: _ZSTD_WINDOW_LOG,
        parameter.checksum_flag: 1,
    }
    return zstd.ZstdCompressor(options=options)
