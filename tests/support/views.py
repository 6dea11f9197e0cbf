"""Sealed trees made by hand, and running a command in a view of one from a process of its own."""

import json
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from gkm.base.digests import digest_bytes
from gkm.store.claims import claim
from gkm.store.locks import locked
from gkm.store.seal import seal
from gkm.store.sealed import FILES, SealedFile, SealedTree
from gkm.store.store import Store

PROGRAM = Path(__file__).with_name("view_program.py")

OLD_ROOT = "/built/here"
"""Where the cache of `triton_files` says it was compiled."""


def triton_files(*kernels: str) -> dict[str, bytes]:
    """The files of a Triton cache with these kernels, one entry each, with paths below `OLD_ROOT`."""
    files: dict[str, bytes] = {}
    for kernel in kernels:
        entry = f"{kernel.upper():A<52}"[:52]
        metadata = {
            "hash": "0" * 64,
            "target": {"backend": "cuda", "arch": 80, "warp_size": 32},
            "name": kernel,
        }
        own = {
            f"{kernel}.cubin": b"code of " + kernel.encode(),
            f"{kernel}.json": json.dumps(metadata).encode(),
        }
        children = {name: f"{OLD_ROOT}/{entry}/{name}" for name in own}
        own[f"__grp__{kernel}.json"] = json.dumps({"child_paths": children}).encode()
        files |= {f"{entry}/{name}": content for name, content in own.items()}
    return files


def seal_files(
    store: Store, files: Mapping[str, bytes], *, executable: Collection[str] = (), name: str = "one"
) -> SealedTree:
    """A sealed tree of `files`; its digest is that of `name`."""
    digest = digest_bytes(name.encode())
    owned = claim(store.layout, store.layout.staging)
    root = owned.path / "tree"
    listing = []
    for path, content in sorted(files.items()):
        file = root / FILES / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(0o777 if path in executable else 0o666)
        listing.append(SealedFile(path, digest_bytes(content), len(content), path in executable))
    for directory in [p for p in (root / FILES).rglob("*") if p.is_dir()]:
        directory.chmod(0o777)
    with locked(store.layout.digest_lock(digest)):
        tree = seal(store.layout, root, listing, digest=digest, image="gkm.test/cache:1", labels={"a": "b"})
    owned.path.joinpath("lock").unlink()
    owned.path.rmdir()
    owned.close()
    return tree


def program_arguments(store: Path, argv: list[str], **more: Any) -> list[str]:
    """Arguments for `PROGRAM`: run `argv` ("VIEW" in it becomes the view's path) in a view of `digest`."""
    return [json.dumps({"store": str(store), "argv": argv, **more})]


def program_command(store: Path, argv: list[str], **more: Any) -> list[str]:
    """The command line that runs `PROGRAM` with this interpreter."""
    return [sys.executable, "-P", str(PROGRAM), *program_arguments(store, argv, **more)]


def everything(root: Path) -> dict[str, bytes]:
    """Every regular file below `root`."""
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}
