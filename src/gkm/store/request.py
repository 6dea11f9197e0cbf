"""What a session and its supervising process tell each other.

Plain JSON by the standard library: arguments and environment may hold bytes that are not UTF-8, which Python
keeps as lone surrogates and strict encoders refuse.
"""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from gkm.store.mode import Mode
from gkm.store.overlay import Overlay


class Request(NamedTuple):
    """Run `argv` in a view."""

    mode: Mode
    overlay: Overlay
    argv: tuple[str, ...]
    env: dict[str, str]
    mask: tuple[int, ...]
    """Signals that were blocked when the session began, and shall be blocked for the command."""
    payload: tuple[str, ...]
    report: str
    """The file into which the answer is written; below the store, which no view covers."""

    def send(self, fd: int) -> None:
        """Write it to the pipe `fd`. Raises `BrokenPipeError` when the supervising process is gone."""
        data = json.dumps({**self._asdict(), "overlay": self.overlay._asdict()}).encode()
        with os.fdopen(os.dup(fd), "wb") as pipe:
            pipe.write(len(data).to_bytes(8, "big") + data)

    @classmethod
    def receive(cls, fd: int) -> "Request":
        """Read one from the pipe `fd`, and not a byte more. Raises `EOFError` when the sender is gone."""
        data: dict[str, Any] = json.loads(_exactly(fd, int.from_bytes(_exactly(fd, 8), "big")))
        overlay = Overlay(**data.pop("overlay"))
        mode = Mode(data.pop("mode"))
        for name in ("argv", "mask", "payload"):
            data[name] = tuple(data[name])
        return cls(mode=mode, overlay=overlay, **data)


class Report(NamedTuple):
    """How a session ended. Either `failure`, or all the rest."""

    failure: str | None = None
    """``mount`` or ``start``: what could not be done."""
    message: str = ""
    errno: int = 0
    returncode: int = 0
    seconds: float = 0.0
    kind: str = "none"
    reason: str | None = None
    opened: tuple[str, ...] = ()

    def write(self, path: str) -> None:
        """Put it at `path` in one step. Raises `OSError`."""
        beside = Path(f"{path}.new")
        beside.write_text(json.dumps(self._asdict()), encoding="ascii")
        beside.rename(path)

    @classmethod
    def read(cls, path: Path) -> "Report | None":
        """The report at `path`; None when the supervising process died before it wrote one."""
        try:
            data: dict[str, Any] = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        return cls(**{**data, "opened": tuple(data["opened"])})


def _exactly(fd: int, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = os.read(fd, min(count - len(data), 1 << 20))
        if not piece:
            raise EOFError("the sender is gone")
        data += piece
    return bytes(data)
