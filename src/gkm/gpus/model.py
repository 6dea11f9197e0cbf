"""One accelerator, as every room above sees it."""

import msgspec


class GPU(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A GPU of this host, or a simulated one. Absent facts are None, never a made-up default."""

    index: int
    """Position among the GPUs of this host, all vendors counted in one series from 0."""
    uuid: str
    """The vendor's stable identifier (``GPU-…`` from NVML, ``unique_id`` in hex from KFD)."""
    vendor: str
    """``nvidia`` or ``amd``."""
    backend: str
    """What Triton calls the platform: ``cuda`` or ``hip``."""
    product: str
    """The vendor's product name, e.g. ``NVIDIA H100 80GB HBM3``; TorchInductor keys its cache by it."""
    arch: str
    """``sm_90``, ``gfx942``: lower case, without feature suffixes such as ``:sramecc+``."""
    warp_size: int
    """Threads of one warp (NVIDIA, 32) or wavefront (AMD, 64 on CDNA, 32 on RDNA)."""
    compute_capability: str | None = None
    """``9.0`` on NVIDIA; AMD has none."""
    memory_bytes: int | None = None
    driver_version: str | None = None
    runtime_version: str | None = None
    """The newest CUDA version the driver offers, or the installed ROCm version."""
    numa_node: int | None = None
    pci_address: str | None = None
    """``0000:3b:00.0``, lower case."""
    simulated: bool = False
