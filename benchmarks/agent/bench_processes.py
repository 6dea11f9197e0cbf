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
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return [pid for pid in pids if pod_uid in _read(pid, "cgroup")]


def memory(pids: list[int]) -> list[Memory]:
    """What they hold, the largest first."""
    held = []
    for pid in pids:
        words, rollup = _read(pid, "cmdline").split("\0"), _read(pid, "smaps_rollup").splitlines()
        sizes = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in rollup if line.endswith(" kB")}
        if sizes:
            name = " ".join(Path(word).name for word in words[:4] if word)
            held.append(Memory(name, sizes["Rss"], sizes["Pss"]))
    return sorted(held, key=lambda each: -each.pss)


def cpu_seconds(pids: list[int]) -> float:
    """CPU time that they and their ended children have used."""
    total = 0
    for pid in pids:
        fields = _read(pid, "stat").rpartition(")")[2].split()
        total += sum(map(int, fields[11:15]))
    return total / _TICKS


def fanotify_marks(pids: list[int]) -> int:
    """How many fanotify marks they hold (proc_pid_fdinfo(5))."""
    return sum(
        line.startswith("fanotify ") and "sdev:" in line
        for pid in pids
        for name in _descriptors(pid)
        for line in _read(pid, f"fdinfo/{name}").splitlines()
    )


def _read(pid: int, name: str) -> str:
    """A file of a process; empty where it or the process is gone, as children and descriptors come and go."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return ""


def _descriptors(pid: int) -> list[str]:
    try:
        return [path.name for path in Path(f"/proc/{pid}/fdinfo").iterdir()]
    except OSError:
        return []
