"""What gkm-extract does to relocate: it reads one tree, which it cannot write, and writes one layer.

Files of a sealed tree are open to all (`gkm.store.seal`); what protects them is that nobody can reach them. So
the child, while it still has the agent's rights, binds them read-only in a mount namespace of its own, and stays
there: all else of the store is closed to the user that it becomes.
"""

import os
from pathlib import Path

from gkm.agent.messages import Relocated, RelocateRequest
from gkm.store.linux import syscalls
from gkm.store.linux.namespaces import enter_mount_namespace
from gkm.store.relocated import build_layer
from gkm.store.sealed import FILES, INVENTORY, decode_inventory

_FLAGS = syscalls.MS_RDONLY | syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC


def enter_tree(tree: Path, *, closed: bool) -> int:
    """Make the files of the sealed tree in the directory `tree` the working directory; its inventory, opened.

    Call it before confinement, and with one thread. `closed`: they can only be read from now on; needs root.
    Raises `OSError`.
    """
    files = tree / FILES
    if closed:
        enter_mount_namespace()
        syscalls.mount(str(files), files, None, syscalls.MS_BIND, "")
        syscalls.mount("none", files, None, syscalls.MS_BIND | syscalls.MS_REMOUNT | _FLAGS, "")
    inventory = os.open(tree / INVENTORY, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    os.chdir(files)
    return inventory


def relocate(request: RelocateRequest, inventory: int) -> Relocated:
    """Make the layer that `request` asks for, of the tree that was entered.

    Raises:
        TreeDamagedError: the tree is not what was sealed.
        LayerTooLargeError, UsageError: it cannot be relocated to that path.
        OSError: the disk failed.
    """
    with os.fdopen(inventory, "rb") as file:
        known = decode_inventory(file.read())
    limit = request.limit_bytes
    made = build_layer(Path(), known, request.root, Path(request.directory), limit_bytes=limit)
    return Relocated(made.files, made.bytes)
