"""Sync of many real Pods from a real API server: gkm.kube against others, in one run.

``make bench-kube``. It starts a control plane of its own, creates the Pods, and lets each program, in an
environment of its own, mirror them in turn, several rounds, so that whatever else the machine does hits all
alike. Compared are medians, as ratios.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from devcluster.cluster import Cluster
from devcluster.layout import Layout
from gkm.kube.client import Client
from gkm.kube.connection import Connection, load_config
from support.pods import create_pods

HERE = Path(__file__).parent
# Program, and what its environment needs (none: this one).
PEERS = {
    "gkm_kube": "",
    "official": "kubernetes==37.0.2",
    "kr8s_list": "kr8s==0.20.15",
    "kopf_operator": "kopf==1.45.2",
}


def environment(requirement: str, folder: Path) -> Path:
    """The Python of a virtual environment with just `requirement`, made once."""
    if not requirement:
        return Path(sys.executable)
    home = folder / requirement.replace("=", "-")
    python = home / "bin" / "python"
    if not (home / ".complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", requirement], check=True)
        (home / ".complete").touch()
    return python


def measure(python: Path, program: str, kubeconfig: Path, count: int) -> dict[str, float]:
    """Run one program once, with nothing else in its memory."""
    clean = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "PYTHONWARNINGS": "ignore"}
    command = [python, HERE / "peers" / f"{program}.py", kubeconfig, "bench", str(count)]
    got = subprocess.run(command, capture_output=True, text=True, env=clean, timeout=600, check=False)
    if got.returncode != 0:
        raise SystemExit(f"{program} failed:\n{got.stderr}")
    found: dict[str, float] = json.loads(got.stdout.splitlines()[-1])
    if found["count"] != count:
        raise SystemExit(f"{program} saw {found['count']} of {count} Pods")
    return found


async def fill(kubeconfig: Path, count: int) -> None:
    async with Client(
        Connection(load_config(kubeconfig), user_agent="bench-fill"), field_manager="bench"
    ) as client:
        await create_pods(client, "bench", count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--environments", type=Path, default=Path(tempfile.gettempdir()) / "gkm-bench-peers")
    arguments = parser.parse_args()
    pythons = {name: environment(needs, arguments.environments) for name, needs in PEERS.items()}
    cluster = Cluster.up(Layout.of("bench-kube"), nodes=0)
    try:
        kubeconfig = cluster.layout.kubeconfig
        kubectl = [cluster.layout.bin / "kubectl", "--kubeconfig", kubeconfig, "--namespace", "bench"]
        subprocess.run([*kubectl, "create", "namespace", "bench"], check=True)
        # Until it is there the API server refuses every Pod.
        subprocess.run([*kubectl, "wait", "--for=create", "serviceaccount/default"], check=True)
        asyncio.run(fill(kubeconfig, arguments.pods))
        results: dict[str, list[dict[str, float]]] = {name: [] for name in PEERS}
        for _ in range(arguments.rounds):
            for name, python in pythons.items():
                results[name].append(measure(python, name, kubeconfig, arguments.pods))
    finally:
        cluster.down()
    show(results, arguments.pods)


def show(results: dict[str, list[dict[str, float]]], count: int) -> None:
    """A table of medians, and what they are as ratios to ours."""
    medians = {
        name: {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        for name, runs in results.items()
    }
    ours = medians["gkm_kube"]
    print(f"{count} Pods, medians of {len(results['gkm_kube'])} rounds")
    print(f"{'':16}{'synced s':>10}{'ratio':>8}{'RSS MiB':>10}{'peak MiB':>10}{'ratio':>8}")
    for name, found in medians.items():
        print(
            f"{name:16}{found['synced']:10.2f}{found['synced'] / ours['synced']:8.1f}"
            f"{found['rss']:10.1f}{found['peak']:10.1f}{found['rss'] / ours['rss']:8.1f}"
        )
    rate = count / ours["reconciled"]
    print(
        f"gkm_kube reconciled every Pod after {ours['reconciled']:.2f} s: "
        f"{rate:.0f} keys/s through a controller"
    )


if __name__ == "__main__":
    main()
