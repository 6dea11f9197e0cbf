"""The two images every node has, written as OCI image layouts in a tar: nothing can be pulled by a node.

``gkm.test/pause:1`` holds pods' namespaces; ``gkm.test/busybox:1`` is Debian's static busybox with its
applets as links. Format: OCI image-spec v1.1, image-layout.md.
"""

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

PAUSE = "gkm.test/pause:1"
BUSYBOX = "gkm.test/busybox:1"


def pause(archive: Path, program: Path) -> None:
    """Write the pause image around the program `pause`."""
    with _Layer() as layer:
        layer.file("pause", program.read_bytes(), mode=0o755)
    _write(archive, PAUSE, layer.data, {"Entrypoint": ["/pause"], "User": "65535:65535"})


def busybox(archive: Path, program: Path, name: str = BUSYBOX) -> None:
    """Write the busybox image `name` around a static busybox."""
    applets = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    with _Layer() as layer:
        for folder, mode in (
            ("bin", 0o755),
            ("etc", 0o755),
            ("root", 0o700),
            ("tmp", 0o1777),
            ("var", 0o755),
        ):
            layer.folder(folder, mode)
        layer.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
        layer.file("etc/group", b"root:x:0:\nnogroup:x:65534:\n")
        layer.file("bin/busybox", program.read_bytes(), mode=0o755)
        for applet in applets:
            if applet != "busybox":
                layer.link(f"bin/{applet}", "busybox")
    _write(archive, name, layer.data, {"Cmd": ["sh"], "Env": ["PATH=/bin"]})


class _Layer:
    """An uncompressed layer: the same content gives the same bytes."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._tar = tarfile.TarFile(fileobj=self._buffer, mode="w", format=tarfile.USTAR_FORMAT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._tar.close()

    @property
    def data(self) -> bytes:
        """The finished layer."""
        return self._buffer.getvalue()

    def folder(self, name: str, mode: int) -> None:
        """Add a directory."""
        self._add(name, mode, tarfile.DIRTYPE)

    def file(self, name: str, data: bytes, mode: int = 0o644) -> None:
        """Add a file."""
        self._add(name, mode, tarfile.REGTYPE, data)

    def link(self, name: str, target: str) -> None:
        """Add a symbolic link."""
        self._add(name, 0o777, tarfile.SYMTYPE, target=target)

    def _add(self, name: str, mode: int, kind: bytes, data: bytes = b"", target: str = "") -> None:
        info = tarfile.TarInfo(name)
        info.mode, info.type, info.size, info.linkname = mode, kind, len(data), target
        self._tar.addfile(info, io.BytesIO(data))


def _write(archive: Path, name: str, layer: bytes, config: Mapping[str, object]) -> None:
    blobs: dict[str, bytes] = {}

    def blob(media_type: str, data: bytes) -> dict[str, object]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    layer_descriptor = blob("application/vnd.oci.image.layer.v1.tar", layer)
    config_descriptor = blob(
        "application/vnd.oci.image.config.v1+json",
        _json(
            {
                "architecture": _architecture(),
                "os": "linux",
                "config": config,
                "rootfs": {"type": "layers", "diff_ids": [layer_descriptor["digest"]]},
            }
        ),
    )
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config_descriptor,
        "layers": [layer_descriptor],
    }
    descriptor = blob("application/vnd.oci.image.manifest.v1+json", _json(manifest))
    # containerd takes the image's name from this annotation.
    descriptor["annotations"] = {"io.containerd.image.name": name}
    with _Layer() as tar:
        tar.file("oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        tar.file("index.json", _json({"schemaVersion": 2, "manifests": [descriptor]}))
        for digest, data in blobs.items():
            tar.file(f"blobs/sha256/{digest}", data)
    archive.write_bytes(tar.data)


def _json(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def _architecture() -> str:
    """The machine in Go's words, as image configs have it."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
