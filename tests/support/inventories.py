"""Inventories written out by hand, for tests of what is made of an inventory rather than of scanning."""

from gkm.caches.model import Entry, FormatInventory, Inventory, Target, Toolchain

# sha256("x") in hex, and as Triton names a directory after it: base32 without padding.
TRITON_HASH = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
TRITON_NAME = "FVYRMQVXE2YEIALCPSU7XLBS6XEFGD5RSA6MJWYCEWDRPEQ2JCAQ"

SM_75 = Target("cuda", "sm_75", 32)
SM_90 = Target("cuda", "sm_90", 32)
GFX90A = Target("hip", "gfx90a", 64)


def entry(
    path: str,
    *targets: Target,
    format_: str = "triton",
    helper: bool = False,
    size: int = 10,
    toolchain: Toolchain | None = None,
) -> Entry:
    """An entry of one file in the directory `path`."""
    file = f"{path}/code"
    return Entry(
        format=format_,
        path=path,
        name=path.rpartition("/")[2],
        files=(file,),
        payload=(file,),
        bytes=size,
        targets=targets,
        toolchain=toolchain or Toolchain(),
        helper=helper,
    )


def inventory(*formats: FormatInventory, files: tuple[str, ...] = (), size: int | None = None) -> Inventory:
    """An inventory of `formats`: their entries' files and bytes unless told otherwise."""
    entries = [e for owned in formats for e in owned.entries]
    every = files or tuple(sorted(file for e in entries for file in e.files))
    return Inventory(formats, every, sum(e.bytes for e in entries) if size is None else size)
