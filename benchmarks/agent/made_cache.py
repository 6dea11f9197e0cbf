"""A Triton cache of a given size, written by hand: real in layout, so that it is recognised and relocated.

An entry is a directory with a group file that names its files by absolute path, as Triton 3.9 writes it. The
payloads are random bytes: nothing between the registry and the disk can make them smaller.
"""

import base64
import json
import os
import random
from pathlib import Path

STOOD_AT = "/home/builder/.triton/cache"
"""Where the cache claims to have been made: nothing hits anywhere else without relocation."""

FILES_PER_ENTRY = 6
_PAYLOADS = {"cubin": 0.60, "ptx": 0.20, "llir": 0.15, "ttir": 0.05}


def write_cache(root: Path, *, entries: int, size: int, seed: int = 1) -> None:
    """Write `entries` kernels below `root`, of about `size` bytes together."""
    source = random.Random(seed)
    for number in range(entries):
        key = base64.b32encode(source.randbytes(32)).decode().rstrip("=")
        _write_entry(root / key, f"kernel_{number}", source, size // entries)


def change(root: Path) -> None:
    """Other bytes in one payload: the same cache, under a digest that nobody has seen, in an earlier run either."""
    payload = min(root.glob("*/*.cubin"))
    payload.write_bytes(os.urandom(payload.stat().st_size))


def _write_entry(directory: Path, name: str, source: random.Random, size: int) -> None:
    directory.mkdir(parents=True)
    for end, share in _PAYLOADS.items():
        (directory / f"{name}.{end}").write_bytes(source.randbytes(int(size * share)))
    target = {"backend": "cuda", "arch": 90, "warp_size": 32}
    facts = {"hash": "0" * 64, "target": target, "num_warps": 4, "name": name, "triton_version": "3.9.0"}
    (directory / f"{name}.json").write_text(json.dumps(facts))
    old = f"{STOOD_AT}/{directory.name}"
    children = {f"{name}.{end}": f"{old}/{name}.{end}" for end in (*_PAYLOADS, "json")}
    (directory / f"__grp__{name}.json").write_text(json.dumps({"child_paths": children}))
