"""Where the store is when nobody says."""

import os
from collections.abc import Mapping
from pathlib import Path


def default_store(environ: Mapping[str, str] | None = None, *, uid: int | None = None) -> Path:
    """``$GKM_STORE``; else ``/var/lib/gkm`` for root and ``$XDG_DATA_HOME/gkm`` for a user.

    XDG_DATA_HOME is ``~/.local/share`` where it is unset or not absolute (XDG Base Directory Specification).
    `uid` is the effective one unless given.
    """
    environ = os.environ if environ is None else environ
    if chosen := environ.get("GKM_STORE"):
        return Path(chosen).absolute()
    if (os.geteuid() if uid is None else uid) == 0:
        return Path("/var/lib/gkm")
    data = Path(environ.get("XDG_DATA_HOME") or "")
    if not data.is_absolute():
        data = Path(environ.get("HOME") or Path.home()) / ".local" / "share"
    return data / "gkm"
