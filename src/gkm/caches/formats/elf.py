"""What an ELF header says about the processor that the code is for: 64 bytes are enough.

Numbers: `e_machine` from the ELF registry; `e_flags` of GPU code from LLVM's `llvm/BinaryFormat/ELF.h`
(`EF_AMDGPU_MACH_*`, `EF_CUDA_SM*`) and from what Triton 3.9 writes for each of these targets.
"""

import struct

from gkm.caches.model import Target

MAGIC = b"\x7fELF\x02\x01"
"""The first bytes of a 64-bit little-endian ELF file; every processor below is one."""
HEADER_SIZE = 64

_EM_CUDA = 190
_EM_AMDGPU = 224
_HOSTS = {62: "x86_64", 183: "aarch64", 21: "ppc64le", 243: "riscv64"}
_CUDA_ABI_V1 = 7
"""EI_ABIVERSION up to which the SM stands in the lowest byte of e_flags; after it, in the second byte."""
_AMDGPU_MACH = {
    0x2C: "gfx900", 0x2F: "gfx906", 0x30: "gfx908", 0x3F: "gfx90a", 0x40: "gfx940", 0x4B: "gfx941",
    0x4C: "gfx942", 0x4F: "gfx950",
    0x33: "gfx1010", 0x34: "gfx1011", 0x35: "gfx1012", 0x36: "gfx1030", 0x37: "gfx1031", 0x38: "gfx1032",
    0x39: "gfx1033", 0x3E: "gfx1034", 0x3D: "gfx1035", 0x45: "gfx1036",
    0x41: "gfx1100", 0x46: "gfx1101", 0x47: "gfx1102", 0x44: "gfx1103",
    0x43: "gfx1150", 0x4A: "gfx1151", 0x55: "gfx1152", 0x58: "gfx1153",
    0x48: "gfx1200", 0x4E: "gfx1201",
}  # fmt: skip


def elf_target(header: bytes) -> Target | None:
    """The target of the ELF file that starts with `header` (64 bytes); None where none is known."""
    if len(header) < HEADER_SIZE or not header.startswith(MAGIC):
        return None
    abi_version = header[8]
    (machine,) = struct.unpack_from("<H", header, 18)
    (flags,) = struct.unpack_from("<I", header, 48)
    if machine == _EM_CUDA:
        sm = flags & 0xFF if abi_version <= _CUDA_ABI_V1 else flags >> 8 & 0xFF
        return Target(backend="cuda", arch=f"sm_{sm}", warp_size=32) if sm else None
    if machine == _EM_AMDGPU:
        arch = _AMDGPU_MACH.get(flags & 0xFF)
        return None if arch is None else Target(backend="hip", arch=arch, warp_size=wavefront(arch))
    host = _HOSTS.get(machine)
    return None if host is None else Target(backend="cpu", arch=host, warp_size=0)


def wavefront(arch: str) -> int:
    """Threads of a wavefront that compilers use for `arch`: 64 on GCN and CDNA (``gfx9…``), 32 on RDNA."""
    return 64 if len(arch) == len("gfx90a") else 32
