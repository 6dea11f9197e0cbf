"""The formats that GKM knows, outermost first: where two claim the same directory, the first owns it."""

from gkm.caches.format import Format
from gkm.caches.formats.inductor import INDUCTOR
from gkm.caches.formats.triton import TRITON
from gkm.caches.formats.vllm import VLLM

FORMATS: tuple[Format, ...] = (VLLM, INDUCTOR, TRITON)

BY_NAME: dict[str, Format] = {known.name: known for known in FORMATS}


def relocatable_format(file: str) -> Format | None:
    """The format whose `rewrite` understands a file of this name, if any."""
    return next((known for known in FORMATS if known.is_relocatable(file)), None)
