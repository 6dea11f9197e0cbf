"""Enters a sealed tree as a relocating child does, and tells what it can still do to it and to another tree.

Arguments: PARENT UID GID TREE OTHER. One JSON object on stdout.
"""

import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from gkm.agent.confinement import Identity, confine, effective_capabilities
from gkm.agent.relocating import enter_tree


def _tried(work: Callable[[], object]) -> str:
    try:
        work()
    except OSError as error:
        return error.strerror or str(error)
    return "ok"


def main() -> None:
    """Ask the kernel."""
    parent, uid, gid = map(int, sys.argv[1:4])
    tree, other = Path(sys.argv[4]), Path(sys.argv[5])
    inventory = enter_tree(tree, closed=True)
    confine(parent=parent, identity=Identity(uid, gid), network=False)
    file = next(path for path in Path().rglob("*") if path.is_file())
    told = {
        "effective": str(effective_capabilities()),
        "read": _tried(file.read_bytes),
        "inventory": _tried(lambda: os.read(inventory, 1)),
        "write": _tried(lambda: os.open(file, os.O_RDWR)),
        "make": _tried(Path("new").touch),
        "remove": _tried(file.unlink),
        "chmod": _tried(lambda: file.chmod(0o600)),
        "by name": _tried(lambda: os.open(tree / "files", os.O_RDONLY)),
        "other tree": _tried(lambda: os.open(other / "files", os.O_RDONLY)),
        "socket": _tried(socket.socket),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
