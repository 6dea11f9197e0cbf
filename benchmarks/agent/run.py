"""How fast pods start with a cache, and what the agent costs: one run on a cluster of its own.

``make bench-agent``. A cache of 100 MB in 6 000 files, absent from the node and then present, reaches pods as an
inline volume and as a claim of ours; the same image as a Kubernetes image volume, and an empty directory, start
beside them, round by round, so that whatever else the machine does hits all alike. Then the calls that kubelet
makes, the agent's memory and CPU at rest, and what counting costs. Needs root.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

import bench_pods
from bench_pods import timing
from bench_processes import members
from bench_site import Site, install
from counting import measure_counting
from footprint import measure_footprint
from made_cache import FILES_PER_ENTRY, write_cache
from publish import measure_calls
from show import show_calls, show_counting, show_footprint, show_starts
from starts import measure_starts

from devcluster.cluster import Cluster
from devcluster.layout import Layout
from gkm.csi.ports import PodName
from gkm.kube.client import Client
from gkm.kube.connection import Connection, load_config

_PARTS = ("starts", "calls", "footprint", "counting")
_CACHE = "held"
"""The cache of all parts but the first."""


async def measure(site: Site, arguments: argparse.Namespace, folder: Path, client: Client) -> None:
    entries = arguments.files // FILES_PER_ENTRY
    cache = folder / "cache"
    write_cache(cache, entries=entries, size=arguments.megabytes * 10**6)
    await site.connect()
    namespace = f"bench-{folder.name[-8:].strip('_').replace('_', '-').lower()}"
    await site.make_namespace(namespace)
    async with timing(client, namespace) as stopwatch:
        if "starts" in arguments.parts:
            show_starts(
                await measure_starts(site, stopwatch, cache, rounds=arguments.rounds, entries=entries)
            )
        if {"calls", "footprint", "counting"} & set(arguments.parts):
            await site.make_cache(namespace, _CACHE, await site.push(cache, "bench/held:1"))
        claim = {"persistentVolumeClaim": {"claimName": _CACHE}}
        if "footprint" in arguments.parts:
            show_footprint(
                await measure_footprint(
                    site, stopwatch, claim, mounts=arguments.mounts, seconds=arguments.idle
                )
            )
        if {"calls", "counting"} & set(arguments.parts):
            body = bench_pods.pod("holder", namespace, claim, command=["sleep", "100000"])
            uid = await stopwatch.create(body)
            if "calls" in arguments.parts:
                pod = PodName(namespace, "holder", uid)
                show_calls(await measure_calls(site, pod, _CACHE, count=arguments.calls))
            if "counting" in arguments.parts:
                view = Path(f"/proc/{max(members(uid))}/root{bench_pods.MOUNT}")
                show_counting(await measure_counting(view, lambda: members(site.agent_uid)))
            await stopwatch.remove(body, uid)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", default=_PARTS, help=f"of {', '.join(_PARTS)}; default: all"
    )
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--files", type=int, default=6_000)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--mounts", type=int, default=40)
    parser.add_argument("--idle", type=float, default=60.0, help="seconds to look at the agent at rest")
    parser.add_argument("--cluster", default="bench-agent")
    parser.add_argument(
        "--keep", action="store_true", help="leave the cluster; one that is there has GKM already"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(_PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    layout = Layout.of(arguments.cluster)
    installed = arguments.keep and layout.read_spec() is not None
    cluster = Cluster.up(layout, nodes=1, say=lambda text: print(text, file=sys.stderr, flush=True))
    try:
        asyncio.run(_run(cluster, arguments, installed=installed))
    finally:
        if not arguments.keep:
            cluster.down()


async def _run(cluster: Cluster, arguments: argparse.Namespace, *, installed: bool) -> None:
    if not installed:
        install(cluster)
    connection = Connection(load_config(cluster.layout.kubeconfig), user_agent="bench-agent")
    with tempfile.TemporaryDirectory(prefix="gkm-bench-") as folder:
        async with Client(connection, field_manager="bench") as client:
            await measure(Site(cluster, client), arguments, Path(folder), client)


if __name__ == "__main__":
    main()
