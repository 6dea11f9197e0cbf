"""Writes what is made from `gkm.processes.config`: the ConfigMap ``gkm-config`` that is installed, every key of
it explained, and ``docs/reference/configuration.md``. With ``--check`` it only says what would change."""

import argparse
import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from gkm.api.descriptions import field_descriptions
from gkm.api.names import CONFIG_MAP, SYSTEM_NAMESPACE
from gkm.processes.config import Bytes, Config

MANIFEST = Path("deploy/base/config.yaml")
REFERENCE = Path("docs/reference/configuration.md")
_WIDTH = 110


class Entry(NamedTuple):
    """One key with the text of its default, empty for none."""

    key: str
    default: str
    description: str


def entries() -> Iterator[Entry]:
    """Every key, in the struct's order."""
    descriptions = field_descriptions(Config)
    for item in msgspec.structs.fields(Config):
        yield Entry(item.encode_name, _as_text(item.default), descriptions[item.name])


def manifest() -> str:
    """The ConfigMap, as YAML with comments."""
    lines = [
        "# Made by tools/deploy_config.py. Change values in an overlay, then restart:",
        f"#   kubectl -n {SYSTEM_NAMESPACE} rollout restart deployment/gkm-operator daemonset/gkm-agent",
        "apiVersion: v1",
        "kind: ConfigMap",
        "metadata:",
        f"  name: {CONFIG_MAP}",
        f"  namespace: {SYSTEM_NAMESPACE}",
        "data:",
    ]
    for entry in entries():
        lines += [f"  # {line}" for line in textwrap.wrap(entry.description, _WIDTH - 4)]
        lines.append(f"  {entry.key}: {json.dumps(entry.default)}")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The reference."""
    lines = [
        "# Configuration",
        "",
        f"The ConfigMap `{CONFIG_MAP}` in the namespace `{SYSTEM_NAMESPACE}` sets what holds for a whole",
        "installation. Values are text. A process reads it when it starts, and does not start with a key that it",
        "does not know or a value that it cannot read; after a change:",
        "",
        "```console",
        f"kubectl -n {SYSTEM_NAMESPACE} rollout restart deployment/gkm-operator daemonset/gkm-agent",
        "```",
        "",
        "| key | default | meaning |",
        "| --- | --- | --- |",
    ]
    lines += [
        f"| `{entry.key}` | {f'`{entry.default}`' if entry.default else ''} | {entry.description} |"
        for entry in entries()
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """The command; exit status 1 where `--check` found drift."""
    parser = argparse.ArgumentParser(prog="tools/deploy_config.py", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if something would")
    check = parser.parse_args().check
    wanted = {MANIFEST: manifest(), REFERENCE: page()}
    changed = [path for path, text in wanted.items() if not path.is_file() or path.read_text() != text]
    for path in changed:
        if not check:
            path.write_text(wanted[path])
        print(f"{path}: {'differs from gkm.processes.config; run `make generate`' if check else 'written'}")
    return 1 if check and changed else 0


def _as_text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case Bytes():
            unit = next(unit for unit in (2**40, 2**30, 2**20, 2**10, 1) if value % unit == 0)
            return f"{value // unit}{ {2**40: 'Ti', 2**30: 'Gi', 2**20: 'Mi', 2**10: 'Ki', 1: ''}[unit] }"
        case frozenset():
            return ",".join(sorted(value))
        case _:
            return str(value)


if __name__ == "__main__":
    sys.exit(main())
