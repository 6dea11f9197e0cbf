"""GPUs that are not there: for tests, demos, and packing for another machine's GPUs."""

import difflib
import hashlib
import re
import uuid

from gkm.base.errors import UsageError
from gkm.gpus.errors import UnknownProductError
from gkm.gpus.model import GPU
from gkm.gpus.products import GIB, PRODUCTS, Product, find_product

NONE = "none"
"""The text for a host without GPUs."""
MOST_GPUS = 256

_COUNTED = re.compile(r"(\d+)\s*[xX]\s*(.*)", re.DOTALL)


def parse_simulated(text: str) -> tuple[GPU, ...]:
    """The GPUs that `text` describes: ``8xH100,2xMI300X``, ``T4``, or ``none``.

    Names are those of `gkm.gpus.products`, short or full. The same text always gives the same GPUs, UUIDs
    included; what only a real host has (driver, PCI address, NUMA node) is absent.

    Raises:
        UnknownProductError: a name is not in the table.
        UsageError: the text is malformed, or asks for more than `MOST_GPUS`.
    """
    if text.strip().casefold() == NONE:
        return ()
    products: list[Product] = []
    for item in text.split(","):
        count, name = _counted(item.strip(), text)
        product = find_product(name)
        if product is None:
            raise UnknownProductError(_unknown(name))
        if count > MOST_GPUS - len(products):
            raise UsageError(f"{text!r} asks for more than {MOST_GPUS} simulated GPUs: ask for fewer")
        products += [product] * count
    return tuple(_simulated(index, product) for index, product in enumerate(products))


def _counted(item: str, text: str) -> tuple[int, str]:
    found = _COUNTED.fullmatch(item)
    count, name = (found[1], found[2]) if found else ("1", item)
    # Five digits are beyond any host and keep int() cheap.
    if not name or len(count) > 5 or int(count) == 0:
        raise UsageError(
            f"{text!r} does not describe simulated GPUs: write [COUNTx]NAME, separated by commas, "
            f"as in 8xH100,2xMI300X, or {NONE}"
        )
    return int(count), name


def _unknown(name: str) -> str:
    known = [product.short for product in PRODUCTS]
    lower = {short.casefold(): short for short in known}
    near = difflib.get_close_matches(name.casefold(), lower, n=1)
    meant = f" (did you mean {lower[near[0]]}?)" if near else ""
    return f"no GPU product {name!r}{meant}: known are {', '.join(known)}"


def _simulated(index: int, product: Product) -> GPU:
    seed = f"gkm simulated GPU {index} {product.name}"
    if product.vendor == "nvidia":
        identifier = f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, seed)}"
    else:
        identifier = hashlib.sha256(seed.encode()).hexdigest()[:16]
    return GPU(
        index=index,
        uuid=identifier,
        vendor=product.vendor,
        backend=product.backend,
        product=product.name,
        arch=product.arch,
        warp_size=product.warp_size,
        compute_capability=product.compute_capability,
        memory_bytes=product.memory_gib * GIB,
        simulated=True,
    )
