"""Reading /proc/self/mountinfo (proc_pid_mountinfo(5))."""

import re
from pathlib import Path
from typing import NamedTuple

_ESCAPE = re.compile(r"\\([0-7]{3})")


class MountEntry(NamedTuple):
    """One mount as this process sees it."""

    target: str
    fstype: str
    source: str
    options: str
    """The filesystem's own options, joined by commas as the kernel prints them."""


def parse_mountinfo(text: str) -> tuple[MountEntry, ...]:
    """The mounts that `text` lists, in its order; a later one at the same target covers the earlier."""
    entries = []
    for line in text.split("\n"):
        # Optional fields of unknown number end at a lone "-".
        before, separator, after = line.partition(" - ")
        fields, tail = before.split(" "), after.split(" ")
        if separator and len(fields) >= 6 and len(tail) >= 2:
            options = tail[2] if len(tail) > 2 else ""
            entries.append(
                MountEntry(_unescape(fields[4]), tail[0], _unescape(tail[1]), _unescape(options)),
            )
    return tuple(entries)


def mounts() -> tuple[MountEntry, ...]:
    """The mounts of this process's namespace. Raises `OSError` where /proc is missing."""
    return parse_mountinfo(_read())


def mounts_below(directory: Path) -> tuple[MountEntry, ...]:
    """Those of `mounts` at the absolute path `directory` or below it; the others, of which a node has hundreds, are
    not parsed. Raises as `mounts`."""
    lines = _read().split("\n")
    wanted = _escape(str(directory))
    below = f"{directory}/"
    return tuple(
        entry
        for entry in parse_mountinfo("\n".join(line for line in lines if wanted in line))
        if f"{entry.target}/".startswith(below)
    )


def _read() -> str:
    return Path("/proc/self/mountinfo").read_bytes().decode("utf-8", "surrogateescape")


def _escape(path: str) -> str:
    return re.sub(r"[ \t\n\\]", lambda match: f"\\{ord(match.group()):03o}", path)


def _unescape(text: str) -> str:
    # Space, tab, newline and backslash are written as three octal digits.
    return _ESCAPE.sub(lambda match: chr(int(match.group(1), 8)), text)
