"""Sync of many real Pods from a real API server: gkm.kube against others, in one run; and what it costs when
things change, and when nothing does.

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
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from devcluster import audit
from devcluster.cluster import Cluster
from devcluster.layout import Layout
from gkm.kube.client import Client
from gkm.kube.connection import Connection, load_config
from gkm.kube.resources import PODS
from support.pods import create_pods

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parents[1] / "build" / "bench-kube"
LONGEST = 600
Found = dict[str, float]


class Peer(NamedTuple):
    """A program below ``peers``, what its environment needs (nothing: it runs in this one), and how it is
    told to work."""

    program: str
    needs: str = ""
    words: tuple[str, ...] = ()


OURS = "gkm.kube"
PEERS = {
    OURS: Peer("gkm_kube"),
    "gkm.kube stream": Peer("gkm_kube", words=("stream",)),
    "official": Peer("official", "kubernetes==37.0.2"),
    "kr8s": Peer("kr8s_list", "kr8s==0.20.15"),
    "kopf": Peer("kopf_operator", "kopf==1.45.2"),
}


def environment(requirement: str, folder: Path) -> Path:
    """The Python of a virtual environment with just `requirement`, made once."""
    if not requirement:
        return Path(sys.executable)
    home = folder / requirement.replace("==", "-")
    python = home / "bin" / "python"
    if not (home / ".complete").exists():
        print(f"installing {requirement} into {home}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement]
        subprocess.run(install, check=True)
        (home / ".complete").touch()
    return python


def start(python: Path, program: str, *words: str | Path) -> subprocess.Popen[str]:
    """Start one program, with nothing else in its memory."""
    clean = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "PYTHONWARNINGS": "ignore"}
    command = [python, HERE / "peers" / f"{program}.py", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean)


def finish(running: subprocess.Popen[str], count: int) -> Found:
    """What a program found, which saw `count` objects."""
    try:
        out, said = running.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        running.kill()
        raise SystemExit(f"{running.args} took more than {LONGEST} s") from None
    if running.returncode != 0:
        raise SystemExit(f"{running.args} failed:\n{said}")
    found: Found = json.loads(out.splitlines()[-1])
    if found["count"] != count:
        raise SystemExit(f"{running.args} saw {found['count']} of {count} objects")
    return found


def ready(running: subprocess.Popen[str]) -> None:
    """Return once a program says that it is idle."""
    assert running.stdout is not None
    if running.stdout.readline() != "ready\n":
        raise SystemExit(f"{running.args} failed:\n{running.communicate()[1]}")


def client(kubeconfig: Path) -> Client:
    return Client(Connection(load_config(kubeconfig), user_agent="bench-fill"), field_manager="bench")


async def fill(kubeconfig: Path, count: int) -> None:
    async with client(kubeconfig) as own:
        await create_pods(own, "bench", count)


async def change(kubeconfig: Path, count: int, *, at_once: int = 24) -> None:
    """Give `count` Pods a new label."""
    names = iter([f"pod-{number:05}" for number in range(count)])
    body = {"metadata": {"labels": {"changed": "yes"}}}
    async with client(kubeconfig) as own:

        async def patch() -> None:
            for name in names:
                await own.patch(PODS, name, body, "bench")

        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(patch())


def namespace(cluster: Cluster, name: str) -> None:
    kubectl = [cluster.layout.bin / "kubectl", "--kubeconfig", cluster.layout.kubeconfig]
    subprocess.run([*kubectl, "create", "namespace", name], check=True, stdout=subprocess.DEVNULL)
    # Until it is there the API server refuses every Pod.
    wait = ["wait", "--namespace", name, "--for=create", "serviceaccount/default"]
    subprocess.run([*kubectl, *wait], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--changes", type=int, default=2000, help="Pods changed to count events")
    parser.add_argument("--idle", type=int, default=60, help="seconds to watch an idle manager")
    parser.add_argument(
        "--environments", type=Path, default=ENVIRONMENTS, help="where the peers are installed"
    )
    arguments = parser.parse_args()
    pythons = {name: environment(peer.needs, arguments.environments) for name, peer in PEERS.items()}
    cluster = Cluster(Layout.of("bench-kube"))
    # What an interrupted run left: Pods, too.
    cluster.down()
    cluster = Cluster.up(cluster.layout, nodes=0, say=print)
    try:
        for name in ("bench", "idle"):
            namespace(cluster, name)
        print(f"creating {arguments.pods} Pods", flush=True)
        asyncio.run(fill(cluster.layout.kubeconfig, arguments.pods))
        results = sync(cluster, pythons, arguments.pods, arguments.rounds)
        show(results, arguments.pods)
        show_events(events(cluster, min(arguments.changes, arguments.pods)))
        show_idle(*idle(cluster, arguments.idle), arguments.idle)
    finally:
        cluster.down()


def sync(cluster: Cluster, pythons: dict[str, Path], pods: int, rounds: int) -> dict[str, list[Found]]:
    """What each peer found in each round."""
    results: dict[str, list[Found]] = {name: [] for name in PEERS}
    for _ in range(rounds):
        for name, peer in PEERS.items():
            words = (cluster.layout.kubeconfig, "bench", str(pods), *peer.words)
            results[name].append(finish(start(pythons[name], peer.program, *words), pods))
    return results


def events(cluster: Cluster, changes: int) -> Found:
    """A manager that hears `changes` events while they are made."""
    kubeconfig = cluster.layout.kubeconfig
    running = start(Path(sys.executable), "gkm_events", kubeconfig, "bench", str(changes))
    ready(running)
    asyncio.run(change(kubeconfig, changes))
    return finish(running, changes)


def idle(cluster: Cluster, seconds: int) -> tuple[Found, Counter[str]]:
    """A manager with nothing to do, and what it asked the API server for."""
    running = start(Path(sys.executable), "gkm_idle", cluster.layout.kubeconfig, "idle", str(seconds))
    ready(running)
    mark = cluster.layout.audit_log.stat().st_size
    # It mirrors the one ConfigMap that Kubernetes puts into every namespace.
    found = finish(running, 1)
    asked = Counter(
        f"{event.verb} {event.object_ref.resource if event.object_ref else event.request_uri}"
        for event in audit.read(cluster.layout.audit_log, offset=mark)
        # A watch is logged when it begins and when it ends, and these ended with the program.
        if event.user_agent == "bench-idle" and (event.verb == "watch") == (event.stage == "ResponseStarted")
    )
    return found, asked


def show(results: dict[str, list[Found]], count: int) -> None:
    """A table of medians, and what they are as ratios to ours."""
    medians = {
        name: {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        for name, runs in results.items()
    }
    ours = medians[OURS]
    print(f"{count} Pods, medians of {len(results[OURS])} rounds")
    print(f"{'':16}{'synced s':>10}{'ratio':>8}{'CPU s':>8}{'RSS MiB':>10}{'peak MiB':>10}{'ratio':>8}")
    for name, found in medians.items():
        print(
            f"{name:16}{found['synced']:10.2f}{found['synced'] / ours['synced']:8.1f}{found['cpu']:8.2f}"
            f"{found['rss']:10.1f}{found['peak']:10.1f}{found['rss'] / ours['rss']:8.1f}"
        )
    rate = count / ours["reconciled"]
    print(f"{OURS} had reconciled every Pod after {ours['reconciled']:.2f} s: {rate:.0f} keys/s")


def show_events(found: Found) -> None:
    count = found["count"]
    print(
        f"{count:.0f} changes went through a controller in {found['seconds']:.1f} s, as fast as they were made "
        f"({count / found['seconds']:.0f}/s), for {found['spent']:.2f} s of CPU: "
        f"{count / found['spent']:.0f} events per CPU second"
    )


def show_idle(found: Found, asked: Counter[str], seconds: int) -> None:
    calls = ", ".join(f"{count} {what}" for what, count in sorted(asked.items())) or "nothing"
    print(
        f"an idle manager, which leads: {found['rss']:.1f} MiB, {1000 * found['spent'] / seconds:.1f} ms of CPU a "
        f"second, and in {seconds} s it asked for: {calls}"
    )


if __name__ == "__main__":
    main()
