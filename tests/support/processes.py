"""Which processes run on this machine."""

from pathlib import Path


def running_as(uid: int, *, parent: int | None = None) -> list[int]:
    """The processes of the user `uid` that are not dead yet; of one `parent`, if it is named."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            lines = dict(line.split(":", 1) for line in (entry / "status").read_text().splitlines())
        except (FileNotFoundError, ProcessLookupError):
            continue
        same = lines["Uid"].split()[0] == str(uid) and parent in (None, int(lines["PPid"]))
        if same and "Z" not in lines["State"]:
            found.append(int(entry.name))
    return found
