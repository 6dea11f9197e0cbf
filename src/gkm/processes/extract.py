"""gkm-extract: stages one digest without privileges.

``gkm-extract stage PARENT [UID GID]``
    As the agent's child: a request on stdin, lines of JSON on stdout (`gkm.agent.messages`). PARENT is the
    agent's process ID; this process ends with it. UID and GID are what it becomes before it reads anything.
``gkm-extract relocate PARENT TREE [UID GID]``
    The same, to make a relocation layer of the sealed tree in the directory TREE (`gkm.agent.relocating`).
``gkm-extract count PARENT [UID GID]``
    The same, to count what one pod used (`gkm.agent.counting`): one request, one answer.
``gkm-extract``
    As an extraction Job's container: ``GKM_CACHE_DIR``, ``GKM_IMAGE_URL``, ``NO_GPU`` and ``GO_LOG`` from the
    environment.

Exit status: 0 done, 1 failed, for either.
"""

import logging
import os
import sys
from pathlib import Path

import msgspec

from gkm.agent.confinement import Identity, confine
from gkm.agent.counting import CountAnswer, CountRequest, counted
from gkm.agent.messages import ExtractEvent, Failed, RelocateRequest, failure, line
from gkm.agent.relocating import enter_tree, relocate
from gkm.base.errors import GKMError
from gkm.store.errors import TreeDamagedError

_LEVELS = {"debug": logging.DEBUG, "trace": logging.DEBUG}
_log = logging.getLogger("gkm-extract")


def main() -> None:
    """Run, and exit with 0 or 1."""
    arguments = sys.argv[1:]
    level = _LEVELS.get(os.environ.get("GO_LOG", "").lower(), logging.INFO)
    logging.basicConfig(level=level, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    match arguments:
        case ["stage", *numbers] if len(numbers) in (1, 3) and all(text.isdecimal() for text in numbers):
            sys.exit(0 if _stage(*map(int, numbers)) else 1)
        case ["relocate", parent, tree, *ids] if len(ids) in (0, 2) and all(
            text.isdecimal() for text in (parent, *ids)
        ):
            sys.exit(0 if _relocate(int(parent), Path(tree), *map(int, ids)) else 1)
        case ["count", *numbers] if len(numbers) in (1, 3) and all(text.isdecimal() for text in numbers):
            sys.exit(0 if _count(*map(int, numbers)) else 1)
        case []:
            sys.exit(0 if _job() else 1)
        case _:
            _log.error(
                "usage: gkm-extract [stage|count PARENT [UID GID] | relocate PARENT TREE [UID GID]], not %s",
                " ".join(arguments),
            )
            sys.exit(1)


def _stage(parent: int, *ids: int) -> bool:
    # What only staging and the job need, the registry's client first of all, is half of the others' start.
    from gkm.processes.staging_child import stage  # noqa: PLC0415

    return stage(parent, Identity(*ids) if ids else None, _tell)


def _relocate(parent: int, tree: Path, *ids: int) -> bool:
    identity = Identity(*ids) if ids else None
    try:
        inventory = enter_tree(tree, closed=identity is not None)
        confine(parent=parent, identity=identity, network=False)
        request = msgspec.json.decode(sys.stdin.buffer.read(), type=RelocateRequest)
        _tell(relocate(request, inventory))
    except GKMError as error:
        _tell(failure(error))
        return False
    except FileNotFoundError as error:
        _tell(Failed(TreeDamagedError.reason, f"a sealed tree is damaged: {error}"))
        return False
    except (OSError, msgspec.DecodeError) as error:
        _tell(Failed("RelocationFailed", str(error)))
        return False
    return True


def _count(parent: int, *ids: int) -> bool:
    try:
        confine(parent=parent, identity=Identity(*ids) if ids else None, reading=True)
        request = msgspec.json.decode(sys.stdin.buffer.read(), type=CountRequest)
    except (GKMError, OSError, msgspec.DecodeError) as error:
        answer = CountAnswer(problem=f"{type(error).__name__}: {error}")
    else:
        answer = counted(request)
    sys.stdout.buffer.write(msgspec.json.encode(answer))
    return not answer.problem


def _tell(event: ExtractEvent) -> None:
    sys.stdout.buffer.write(line(event))
    sys.stdout.buffer.flush()


def _job() -> bool:
    from gkm.processes.extraction_job import run_job  # noqa: PLC0415  as above

    return run_job(os.environ)


def _main_and_leave() -> None:
    """`main`, and no time spent on taking an interpreter with thousands of objects down: the agent waits."""
    try:
        main()
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)


if __name__ == "__main__":
    _main_and_leave()
