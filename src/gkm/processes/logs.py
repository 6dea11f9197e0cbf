"""Logging of processes that nobody watches: one JSON object a line on stderr, for whatever collects it."""

import json
import logging
import sys
from datetime import UTC, datetime

from gkm.processes.config import LogLevel

_LEVELS = {
    LogLevel.ERROR: logging.ERROR,
    LogLevel.WARNING: logging.WARNING,
    LogLevel.INFO: logging.INFO,
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.TRACE: logging.DEBUG,
}
# At DEBUG these log each request and frame, credentials' headers among them; upstream's word for that is trace.
_CHATTY = ("httpx2", "httpcore2", "h2", "hpack", "asyncio", "grpc")


class JSONFormatter(logging.Formatter):
    """``time`` (RFC 3339, UTC), ``level``, ``logger``, ``message``, and ``error`` with the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the message holds."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def log_to_stderr(level: LogLevel) -> None:
    """Have this process log from `level` on, in place of what it did before."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONFormatter())
    logging.basicConfig(level=_LEVELS[level], handlers=[handler], force=True)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.NOTSET if level is LogLevel.TRACE else logging.WARNING)
