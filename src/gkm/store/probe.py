"""Try the modes for real in an empty directory, best first.

Each try happens in a forked child, whose namespaces and mounts end with it, so the caller must have one thread.
For others there is ``python -m gkm.store.probe DIRECTORY``, which prints the answer as a JSON array.
"""

import json
import os
import sys
from pathlib import Path

from gkm.store.enter import enter_and_mount
from gkm.store.mode import Mode
from gkm.store.overlay import Overlay


def try_modes(scratch: Path) -> tuple[Mode, tuple[str, ...]]:
    """The best mode that works in `scratch` (absolute), and why each better one was refused. Raises `OSError`."""
    refusals: list[str] = []
    for mode in (Mode.OVERLAY, Mode.USER_OVERLAY):
        refusal = _try(mode, scratch / mode)
        if not refusal:
            return mode, tuple(refusals)
        refusals.append(f"{mode}: {refusal}")
    return Mode.COPY, tuple(refusals)


def _try(mode: Mode, scratch: Path) -> str:
    """Why `mode` cannot be used, or an empty string."""
    names = ("lower", "upper", "work", "view")
    lower, upper, work, view = (scratch / name for name in names)
    for path in (lower, upper, work, view):
        path.mkdir(parents=True)
    (lower / "file").write_bytes(b"old")
    (lower / "directory").mkdir()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            enter_and_mount(mode, Overlay(str(view), (str(lower),), str(upper), str(work)))
            # The first copy-up is where a layer with an unmapped group fails (EOVERFLOW).
            with (view / "file").open("r+b") as file:
                file.write(b"new")
            # A directory made in the place of a removed one needs an extended attribute, which root in a user
            # namespace (a rootless container) may not write without `userxattr` (EIO).
            (view / "directory").rmdir()
            (view / "directory").mkdir()
            answer = ""
        except Exception as error:  # noqa: BLE001  every refusal is an answer
            answer = str(error) or type(error).__name__
        os.write(writing, answer.encode(errors="replace")[:1000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    if status:
        return f"the try ended with status {os.waitstatus_to_exitcode(status)}"
    return answer


if __name__ == "__main__":
    print(json.dumps(try_modes(Path(sys.argv[1]).resolve())))  # noqa: T201  the answer, to our parent
