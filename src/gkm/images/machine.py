"""Which CPU architecture an image is for, told from the host code in it and never from the host that packs.

Kernel caches hold shared objects (launchers, CPU kernels) beside code for GPUs; an image's config must name
an architecture (OCI image-spec, config.md), and runtimes refuse one that does not fit.
"""

from collections.abc import Iterable

HEADER_BYTES = 20
"""How many of a file's first bytes `machine` looks at."""

WITHOUT_HOST_CODE = "amd64"
"""What an image says that holds no host code: a name must stand there, and this one is the most accepted."""

_ELF64_LITTLE_ENDIAN = b"\x7fELF\x02\x01"
# e_machine (System V gABI, chapter 4) and Go's names, which OCI uses. GPU code is ELF too: EM_CUDA is 190,
# EM_AMDGPU 224; they say nothing about the CPU.
_MACHINES = {62: "amd64", 183: "arm64"}


def machine(header: bytes) -> str | None:
    """The architecture of the host code in a file that begins with `header`; None where it is none."""
    if len(header) < HEADER_BYTES or not header.startswith(_ELF64_LITTLE_ENDIAN):
        return None
    return _MACHINES.get(int.from_bytes(header[18:20], "little"))


def image_architecture(machines: Iterable[str | None]) -> str:
    """The architecture of an image whose files have these `machines`; of several the first by name."""
    return min((name for name in machines if name), default=WITHOUT_HOST_CODE)
