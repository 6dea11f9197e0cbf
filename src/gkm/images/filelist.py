"""The list of digests that travels in a cache image: one line per file, as ``sha256sum --check`` reads it.

It lets anyone check an unpacked image without GKM, and its own digest names the files alone: the same for a
gzip and a zstd image of the same tree, and for every release of GKM.
"""

from collections.abc import Iterable

LIST_PATH = "io.gkm.manifest/SHA256SUMS"
"""Where the list stands in the image. It does not list itself."""

LIST_LABEL = "gkm.io/files-digest"
"""The image's label that holds the list's digest."""


def encode_list(files: Iterable[tuple[str, str]]) -> bytes:
    """The list of `files`, pairs of path and ``sha256:`` digest, sorted by path.

    Paths hold no control characters (`gkm.images.members`); a backslash is escaped as GNU coreutils do
    (manual, "md5sum invocation"): doubled, with another one before the line.
    """
    lines = []
    for path, digest in sorted(files):
        mark = "\\" if "\\" in path else ""
        escaped = path.replace("\\", "\\\\")
        lines.append(f"{mark}{digest.removeprefix('sha256:')}  {escaped}\n")
    return "".join(lines).encode()
