"""What the processes of a pod cost: memory and CPU, as the kernel counts them (proc(5))."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Memory:
    """One process: its name, what is resident, and its share of that (MiB)."""

    name: str
    rss: float
    pss: float


def members(pod_uid: str) -> list[int]:
    """The processes of a pod: they lie in its control group."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                groups = (path / "cgroup").read_text()
            except OSError:
                continue
            if pod_uid in groups:
                found.append(int(path.name))
    return found


def memory(pids: list[int]) -> list[Memory]:
    """What they hold, the largest first."""
    held = []
    for pid in pids:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        sizes = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines if line.endswith(" kB")}
        name = " ".join(Path(word.decode()).name for word in words[:4] if word)
        held.append(Memory(name, sizes["Rss"], sizes["Pss"]))
    return sorted(held, key=lambda each: -each.pss)


def cpu_seconds(pids: list[int]) -> float:
    """CPU time that they and their ended children have used."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += sum(map(int, fields[11:15]))
    return total / _TICKS


def fanotify_marks(pids: list[int]) -> int:
    """How many fanotify marks they hold (proc_pid_fdinfo(5))."""
    return sum(
        line.startswith("fanotify ") and "sdev:" in line
        for pid in pids
        for path in Path(f"/proc/{pid}/fdinfo").iterdir()
        for line in path.read_text().splitlines()
    )
