"""What an image installs: the part of requirements.lock that gkm needs with some extras, hashes included.

``python tools/image_requirements.py --python 3.11 kube kubelet`` writes it to stdout. Dependencies are followed
through the metadata of what is installed here (`make setup` installs the whole lock), with the markers of the
image's interpreter; versions and hashes are the lock's.
"""

import argparse
import importlib.metadata
import re
import sys
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK = Path(__file__).resolve().parents[1] / "requirements.lock"
_PIN = re.compile(r"([A-Za-z0-9._-]+)==")


def locked(text: str) -> dict[str, str]:
    """The entries of a lock file by canonical name: the pin with its hashes, continuation lines included."""
    entries: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if found := _PIN.match(line):
            name = canonicalize_name(found[1])
            entries[name] = ""
        if name and line.strip() and not line.lstrip().startswith("#"):
            entries[name] += line + "\n"
    return entries


def needed(package: str, extras: set[str], python: str) -> set[str]:
    """The canonical names of all that `package` needs with `extras` on Linux with this Python ("3.11").

    Raises:
        PackageNotFoundError: one of them is not installed here.
    """
    environment = {**default_environment(), "python_version": python, "python_full_version": f"{python}.0"}
    found: set[tuple[str, str]] = set()
    waiting = [(package, extra) for extra in ("", *extras)]
    while waiting:
        step = waiting.pop()
        if step in found:
            continue
        found.add(step)
        name, extra = step
        for text in importlib.metadata.requires(name) or ():
            requirement = Requirement(text)
            if requirement.marker and not requirement.marker.evaluate({**environment, "extra": extra}):
                continue
            waiting += [(canonicalize_name(requirement.name), wanted) for wanted in ("", *requirement.extras)]
    return {name for name, _ in found} - {canonicalize_name(package)}


def main() -> int:
    """The command; exit status 1 where the lock lacks something."""
    parser = argparse.ArgumentParser(prog="tools/image_requirements.py", description=__doc__)
    parser.add_argument("--python", required=True, help="the image's Python, as in 3.11")
    parser.add_argument("extras", nargs="*")
    options = parser.parse_args()
    entries = locked(LOCK.read_text(encoding="utf-8"))
    names = sorted(needed("gkm", set(options.extras), options.python))
    missing = [name for name in names if name not in entries]
    if missing:
        print(
            f"requirements.lock has no {', '.join(missing)}: run `make lock`, then `make setup`",
            file=sys.stderr,
        )
        return 1
    print("".join(entries[name] for name in names), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
