"""Writes what is made from the structs: ``deploy/crds/*.yaml`` and ``docs/reference/resources.md``.

``python -m gkm.api.generate`` writes, with ``--check`` it only says what would change (exit status 1). Run in
the root of the repository; `make generate` and `make check-generated` do.
"""

import argparse
import sys
from pathlib import Path

from gkm.api import crd, reference
from gkm.api.definitions import DEFINITIONS

CRDS = Path("deploy/crds")
REFERENCE = Path("docs/reference/resources.md")


def generated() -> dict[Path, bytes]:
    """Every generated file's bytes, by path below the root of the repository."""
    manifests = {
        CRDS / crd.file_name(definition): crd.manifest_yaml(definition) for definition in DEFINITIONS
    }
    return {**manifests, REFERENCE: reference.page().encode()}


def drift(root: Path) -> list[Path]:
    """The paths below `root` whose bytes are not what the structs give, CRDs of no kind of ours included."""
    wanted = generated()
    strangers = [path.relative_to(root) for path in (root / CRDS).glob("*.yaml")]
    changed = [path for path, content in wanted.items() if _content(root / path) != content]
    return sorted(changed + [path for path in strangers if path not in wanted])


def write(root: Path) -> list[Path]:
    """Bring the files below `root` up to date and remove CRDs of no kind of ours; what was changed."""
    wanted = generated()
    changed = drift(root)
    for path in changed:
        if path in wanted:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(wanted[path])
        else:
            (root / path).unlink()
    return changed


def main(arguments: list[str] | None = None) -> int:
    """The command; its exit status is 1 if `--check` found drift."""
    parser = argparse.ArgumentParser(prog="python -m gkm.api.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if something would")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository's root (default: here)")
    options = parser.parse_args(arguments)
    changed = drift(options.root) if options.check else write(options.root)
    for path in changed:
        sys.stdout.write(
            f"{path}: {'differs from the structs; run `make generate`' if options.check else 'written'}\n"
        )
    return 1 if options.check and changed else 0


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
