"""The key ``gkm.registry.ca`` as what registry clients want: a file, which the mounted ConfigMap has already."""

from pathlib import Path

KEY = "gkm.registry.ca"


def authorities(config: Path | None) -> Path | None:
    """The file below the directory `config` with certificates of authorities; None where none are set."""
    path = config / KEY if config else None
    return path if path is not None and path.is_file() and path.read_text().strip() else None
