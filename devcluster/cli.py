"""``python -m devcluster``: what the make targets call, and a few more for work with a cluster."""

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from devcluster import binaries, node, parts, processes, system
from devcluster.cluster import Cluster, clusters
from devcluster.control_plane import COMPONENTS
from devcluster.layout import Layout, node_names, state_root
from devcluster.network import MAX_NODES
from gkm.base.errors import GKMError, UsageError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Exit status: 0 done, 1 the answer is no, 2 wrong usage, 3 the world failed."""
    arguments = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        return command(arguments)
    except UsageError as error:
        say(f"error: {error}")
        return 2
    except (GKMError, OSError) as error:
        say(f"error: {error}")
        return 3
    except KeyboardInterrupt:
        say("interrupted")
        return 130


def say(text: str) -> None:
    """Progress and errors, for people."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m devcluster", description="A real Kubernetes on one machine."
    )
    parser.add_argument(
        "--name", default=os.environ.get("CLUSTER", "default"), help="which cluster (default: default)"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(
        name: str, function: Callable[[argparse.Namespace], int], text: str
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=function)
        return sub

    nodes: dict[str, object] = {"type": _node_count, "default": 2, "metavar": "N"}
    up = command("up", _up, "start a cluster; one that runs is left alone")
    up.add_argument("--nodes", help="0 for the control plane only", **nodes)  # type: ignore[arg-type]  # argparse's overloads
    up.add_argument(
        "--keep", action="store_true", help="leave a cluster that does not start, to look at its logs"
    )
    command("down", _down, "stop a cluster and remove all that it wrote")
    command("status", _status, "what runs; exit status 1 if something does not")
    command("env", _env, "shell commands that put KUBECONFIG and kubectl in reach")
    command("list", _list, "the clusters of this state folder")
    build = command("build", _build, "build the programs without starting anything")
    build.add_argument("--nodes", help="for which shape", **nodes)  # type: ignore[arg-type]  # as above
    doctor = command(
        "doctor", _doctor, "what this machine has and lacks; exit status 1 if it lacks something"
    )
    doctor.add_argument("--nodes", help="for which shape", **nodes)  # type: ignore[arg-type]  # as above
    load = command("load", _load, "import an image archive into every node")
    load.add_argument("archive", type=Path)
    reboot = command("reboot", _reboot, "cut a node's power and start it again on its disk")
    reboot.add_argument("node")
    execute = command("exec", _exec, "run a command in a node's namespaces, as on that machine")
    execute.add_argument("node")
    execute.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND …")
    return parser


def _node_count(text: str) -> int:
    count = int(text)
    if not 0 <= count <= MAX_NODES:
        raise argparse.ArgumentTypeError(f"0 to {MAX_NODES}")
    return count


def _layout(arguments: argparse.Namespace) -> Layout:
    return Layout.of(arguments.name)


def _up(arguments: argparse.Namespace) -> int:
    layout = _layout(arguments)
    cluster = Cluster.up(layout, nodes=arguments.nodes, keep=arguments.keep, say=say)
    say(f"ready: {cluster.spec.server}")
    say('next: eval "$(make -s cluster-env)" && kubectl get --raw /version')
    return 0


def _down(arguments: argparse.Namespace) -> int:
    Cluster(_layout(arguments), say).down()
    return 0


def _status(arguments: argparse.Namespace) -> int:
    cluster = Cluster(_layout(arguments), say)
    spec = cluster.spec
    alive = {component: cluster.identity(component) for component in COMPONENTS}
    lines = [f"{name}\t{f'pid {found.pid}' if found else 'stopped'}" for name, found in alive.items()]
    answers = cluster.api.answers("/readyz")
    lines.append(f"API server {spec.server}\t{'ready' if answers else 'not ready'}")
    ready = {name: node.ready(cluster.api, name) for name in node_names(spec.nodes)}
    lines += [f"{name}\t{'ready' if good else 'not ready'}" for name, good in ready.items()]
    sys.stdout.write("\n".join(lines).expandtabs(40) + "\n")
    return 0 if answers and all(alive.values()) and all(ready.values()) else 1


def _env(arguments: argparse.Namespace) -> int:
    layout = _layout(arguments)
    spec = Cluster(layout).spec
    sys.stdout.write(
        f"export KUBECONFIG={shlex.quote(str(layout.kubeconfig))}\n"
        f'export PATH={shlex.quote(str(layout.bin))}:"$PATH"\n'
        f"export GKM_DEVCLUSTER_ADDRESS={spec.address}\n"
    )
    return 0


def _list(_: argparse.Namespace) -> int:
    for layout in clusters(state_root()):
        spec = layout.read_spec()
        state = "running" if processes.members(layout.folder) else "stopped"
        sys.stdout.write(f"{layout.name}\t{spec.nodes if spec else '?'} nodes\t{state}\n".expandtabs(16))
    return 0


def _build(arguments: argparse.Namespace) -> int:
    system.require(arguments.nodes, say)
    for path in binaries.ensure(parts.programs(arguments.nodes), say).values():
        sys.stdout.write(f"{path}\n")
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    report = system.report(arguments.nodes)
    for what, answer in report:
        sys.stdout.write(f"{what}: {answer}\n")
    return 0 if all(answer == "ok" for _, answer in report) else 1


def _load(arguments: argparse.Namespace) -> int:
    cluster = Cluster(_layout(arguments), say)
    for name in node_names(cluster.spec.nodes):
        say(f"loading {arguments.archive} into {name}")
        node.load(cluster.layout, name, arguments.archive)
    return 0


def _reboot(arguments: argparse.Namespace) -> int:
    Cluster(_layout(arguments), say).reboot(arguments.node)
    return 0


def _exec(arguments: argparse.Namespace) -> int:
    words = arguments.words or ["sh"]
    prefix = node.inside(_layout(arguments), arguments.node)
    sys.stdout.flush()
    os.execv(prefix[0], [*prefix, *words])  # noqa: S606 - this is what exec is for; no shell reads the words
