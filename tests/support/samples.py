"""Sample archives, unpacked the same way on every supported Python."""

import tarfile
from pathlib import Path


def extract(archive: tarfile.TarFile, into: Path) -> None:
    """Unpack a trusted sample. The ``filter`` argument came with Python 3.11.4, the attribute works before."""
    archive.extraction_filter = getattr(tarfile, "data_filter", None)
    archive.extractall(into)
