"""What every program prints when it is done: one JSON line. It runs in all environments."""

import json
import os
import time
from pathlib import Path


def report(count: int, **found: float) -> None:
    """Print `count` and what was `found`, CPU seconds since the start and memory (MiB: now, and at most), and
    leave.

    At once, without cleaning up: some peers take minutes to stop watching.
    """
    status = Path("/proc/self/status").read_text()
    sizes = {key: int(status.split(f"{key}:")[1].split()[0]) / 1024 for key in ("VmRSS", "VmHWM")}
    line = {
        "count": count,
        "cpu": time.process_time(),
        "rss": sizes["VmRSS"],
        "peak": sizes["VmHWM"],
        **found,
    }
    print(json.dumps(line), flush=True)
    os._exit(0)
