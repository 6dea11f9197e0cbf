"""GPU products that GKM can simulate and name, as facts that do not change.

Names are those that the vendors' own software reports, because TorchInductor keys its cache by them: NVML's
device name (what ``nvidia-smi -L`` prints) and libdrm's ``data/amdgpu.ids``. Archs and compute capabilities:
NVIDIA's table of CUDA GPUs; LLVM's AMDGPU usage guide, "Processors". Memory is the data sheet's
figure, taken as GiB.
"""

from collections.abc import Iterator
from dataclasses import dataclass

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Product:
    """One GPU product."""

    short: str
    """The name that people type; `find_product` also takes the full one."""
    name: str
    vendor: str
    arch: str
    memory_gib: int
    warp_size: int
    compute_capability: str | None = None
    pci_ids: tuple[tuple[int, int | None], ...] = ()
    """AMD: PCI device and revision (None: any), because its driver reports no product name."""

    @property
    def backend(self) -> str:
        """What Triton calls the platform."""
        return "cuda" if self.vendor == "nvidia" else "hip"


def _nvidia(short: str, name: str, capability: str, memory_gib: int) -> Product:
    # Every CUDA device has warps of 32 threads (CUDA programming guide, "SIMT Architecture").
    arch = f"sm_{capability.replace('.', '')}"
    return Product(short, name, "nvidia", arch, memory_gib, 32, compute_capability=capability)


def _amd(short: str, name: str, arch: str, memory_gib: int, *pci_ids: tuple[int, int | None]) -> Product:
    # CDNA's gfx9 runs wavefronts of 64, RDNA's gfx10 to gfx12 compute in 32 (LLVM, AMDGPU usage guide).
    warp_size = 64 if arch.startswith("gfx9") else 32
    return Product(short, name, "amd", arch, memory_gib, warp_size, pci_ids=pci_ids)


PRODUCTS: tuple[Product, ...] = (
    _nvidia("V100", "Tesla V100-SXM2-16GB", "7.0", 16),
    _nvidia("V100-32GB", "Tesla V100-SXM2-32GB", "7.0", 32),
    _nvidia("T4", "Tesla T4", "7.5", 16),
    _nvidia("A100", "NVIDIA A100-SXM4-80GB", "8.0", 80),
    _nvidia("A100-40GB", "NVIDIA A100-SXM4-40GB", "8.0", 40),
    _nvidia("A100-PCIe", "NVIDIA A100 80GB PCIe", "8.0", 80),
    _nvidia("A100-PCIe-40GB", "NVIDIA A100-PCIE-40GB", "8.0", 40),
    _nvidia("A30", "NVIDIA A30", "8.0", 24),
    _nvidia("A10", "NVIDIA A10", "8.6", 24),
    _nvidia("A10G", "NVIDIA A10G", "8.6", 24),
    _nvidia("A40", "NVIDIA A40", "8.6", 48),
    _nvidia("RTX3090", "NVIDIA GeForce RTX 3090", "8.6", 24),
    _nvidia("L4", "NVIDIA L4", "8.9", 24),
    _nvidia("L40", "NVIDIA L40", "8.9", 48),
    _nvidia("L40S", "NVIDIA L40S", "8.9", 48),
    _nvidia("RTX4090", "NVIDIA GeForce RTX 4090", "8.9", 24),
    _nvidia("RTX6000-Ada", "NVIDIA RTX 6000 Ada Generation", "8.9", 48),
    _nvidia("H100", "NVIDIA H100 80GB HBM3", "9.0", 80),
    _nvidia("H100-PCIe", "NVIDIA H100 PCIe", "9.0", 80),
    _nvidia("H100-NVL", "NVIDIA H100 NVL", "9.0", 94),
    _nvidia("H20", "NVIDIA H20", "9.0", 96),
    _nvidia("H200", "NVIDIA H200", "9.0", 141),
    _nvidia("H200-NVL", "NVIDIA H200 NVL", "9.0", 141),
    _nvidia("GH200", "NVIDIA GH200 480GB", "9.0", 96),
    _nvidia("B200", "NVIDIA B200", "10.0", 180),
    _nvidia("GB200", "NVIDIA GB200", "10.0", 186),
    _nvidia("B300", "NVIDIA B300 SXM6 AC", "10.3", 288),
    _nvidia("GB300", "NVIDIA GB300", "10.3", 288),
    _nvidia("RTX5090", "NVIDIA GeForce RTX 5090", "12.0", 32),
    _nvidia("RTX-PRO-6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0", 96),
    _nvidia("GB10", "NVIDIA GB10", "12.1", 128),
    _amd("MI50", "AMD Instinct MI60 / MI50", "gfx906", 32, (0x66A1, 0x02)),
    _amd("MI100", "AMD Instinct MI100", "gfx908", 32, (0x738C, None)),
    _amd("MI210", "AMD Instinct MI210", "gfx90a", 64, (0x740F, None)),
    # One GPU of two in a package, with half of its memory: so ROCm and Triton see it.
    _amd("MI250X", "AMD Instinct MI250X / MI250", "gfx90a", 64, (0x740C, None)),
    _amd("MI300A", "AMD Instinct MI300A", "gfx942", 128, (0x74A0, None)),
    _amd("MI300X", "AMD Instinct MI300X", "gfx942", 192, (0x74A1, None)),
    _amd("MI308X", "AMD Instinct MI308X", "gfx942", 192, (0x74A2, None), (0x74B6, None)),
    _amd("MI325X", "AMD Instinct MI325X", "gfx942", 256, (0x74A5, None)),
    _amd("MI350X", "AMD Instinct MI350X", "gfx950", 288, (0x75A0, None)),
    _amd("MI355X", "AMD Instinct MI355X", "gfx950", 288, (0x75A3, None)),
    _amd("RX6900XT", "AMD Radeon RX 6900 XT", "gfx1030", 16, (0x73AF, 0xC0), (0x73BF, 0xC0)),
    _amd("W6800", "AMD Radeon Pro W6800", "gfx1030", 32, (0x73A3, None)),
    _amd("RX7900XTX", "AMD Radeon RX 7900 XTX", "gfx1100", 24, (0x744C, 0xC8)),
    _amd("RX7900XT", "AMD Radeon RX 7900 XT", "gfx1100", 20, (0x744C, 0xCC)),
    _amd("W7900", "AMD Radeon Pro W7900", "gfx1100", 48, (0x7448, None)),
    _amd("RX9070XT", "AMD Radeon RX 9070 XT", "gfx1201", 16, (0x7550, 0xC0)),
)


def find_product(name: str) -> Product | None:
    """The product called `name`, short or full; case, spaces, hyphens and underscores don't matter."""
    return _BY_NAME.get(_plain(name))


def amd_product(device: int, revision: int | None) -> Product | None:
    """The AMD product with this PCI device and revision, if it is in the table."""
    return _BY_PCI_ID.get((device, revision)) or _BY_PCI_ID.get((device, None))


def _plain(name: str) -> str:
    return "".join(c for c in name.casefold() if c not in " -_")


def _names() -> Iterator[tuple[str, Product]]:
    for product in PRODUCTS:
        yield _plain(product.short), product
        yield _plain(product.name), product


_BY_NAME = dict(_names())
_BY_PCI_ID = {pci_id: product for product in PRODUCTS for pci_id in product.pci_ids}
