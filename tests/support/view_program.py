"""What `gkm run` does with a view, and nothing more: for tests that need a process to kill or another user.

Takes one JSON argument: ``store``, ``argv``, and optionally ``digest``, ``mode``, ``target``, ``result`` (a
file for the result, standard output otherwise), ``env``.
"""

import json
import os
import sys
from pathlib import Path

from gkm.base.errors import GKMError
from gkm.store.mode import Mode
from gkm.store.prepare import prepared_mount
from gkm.store.session import run_in_view
from gkm.store.store import Store


def main() -> None:
    request = json.loads(sys.argv[1])
    result: dict[str, object]
    try:
        result = run(request)
    except GKMError as error:
        result = {"error": error.reason, "message": str(error), "exit": getattr(error, "exit_status", 125)}
    text = json.dumps(result)
    if "result" in request:
        Path(request["result"]).write_text(text)
    else:
        print(text)


def run(request: dict) -> dict[str, object]:
    store = Store.open(Path(request["store"]))
    tree = store.tree(request["digest"]) if request.get("digest") else None
    mode = Mode(request["mode"]) if request.get("mode") else None
    target = Path(request["target"]) if request.get("target") else None
    with prepared_mount(store, tree, target=target, mode=mode) as prepared:
        view = str(prepared.target)
        argv = [word.replace("VIEW", view) for word in request["argv"]]
        done = run_in_view(prepared, argv, {**os.environ, **request.get("env", {})})
        upper = {
            path.relative_to(prepared.upper).as_posix(): path.read_text()
            for path in sorted(prepared.upper.rglob("*"))
            if path.is_file()
        }
    return {
        "exit": done.exit_status,
        "returncode": done.returncode,
        "mode": done.mode,
        "kind": done.observation.kind,
        "reason": done.observation.reason,
        "opened": sorted(done.observation.opened),
        "upper": upper,
        "view": view,
    }


if __name__ == "__main__":
    main()
