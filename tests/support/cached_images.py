"""Cache images in a real registry, made of hand-written Triton entries."""

from pathlib import Path

from gkm.images.options import ClientOptions
from gkm.local.transfer import push
from support.made_caches import key, triton_entry
from support.staging import pack_into_layout


async def publish(
    host: str,
    scratch: Path,
    *letters: str,
    repository: str = "kernels/vector-add",
    tag: str = "1",
    options: ClientOptions | None = None,
) -> str:
    """Push a cache with one entry per letter (other letters: another digest); its digest."""
    tree = scratch / f"tree-{''.join(letters)}-{tag}"
    for letter in letters:
        triton_entry(tree / key(letter), stood_at=f"/build/{key(letter)}")
    layout = scratch / f"layout-{''.join(letters)}-{tag}"
    await pack_into_layout(tree, layout)
    return (await push(f"oci:{layout}:1", f"{host}/{repository}:{tag}", options=options)).digest
