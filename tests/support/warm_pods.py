"""Caches and pods of the tests of the warm pod: what is applied, what the compiler and the reports tell of it."""

import base64
import hashlib
import json
import os
import random
import subprocess
import sys
import urllib.request
import uuid
from pathlib import Path
from typing import Any

import gkm as package
from support.devcluster import BUSYBOX, Cluster
from support.installed import apply, eventually
from support.made_caches import triton_entry

Objects = dict[str, Any]

TARGETS = "sm_90,gfx942"
"""What the installed cache is compiled for: a dozen kernels for each, on nodes that simulate both."""

_PROGRAM = """
import pathlib, sys, time
from gkm.local.demo_kernels import main
assert main([*sys.argv[1:], "--report", "/tmp/report"]) == 0
print("report", pathlib.Path("/tmp/report").read_text(), flush=True)
time.sleep(100000)
"""


_PREFIX = "warm-"


def new_namespace(cluster: Cluster) -> str:
    """A namespace of a test's own."""
    name = f"{_PREFIX}{uuid.uuid4().hex[:8]}"
    cluster.create_namespace(name)
    return name


def all_gone(cluster: Cluster, *, but: str = "") -> None:
    """Wait until the namespaces of all tests are gone, except for `but`."""

    def left() -> list[str]:
        names = cluster.kubectl("get", "namespace", "-o", "name").split()
        return [
            name for name in names if name.startswith(f"namespace/{_PREFIX}") and name != f"namespace/{but}"
        ]

    eventually(lambda: not left(), "the namespaces of all tests are gone", 180)


def cache(kind: str, name: str, namespace: str = "", **spec: Any) -> Objects:
    """A cache of `kind`."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "gkm.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def inline(cache: str, namespace: str = "") -> Objects:
    """An inline volume of `cache`."""
    attributes = {"csi.gkm.io/GKMCache": cache, **({"csi.gkm.io/namespace": namespace} if namespace else {})}
    return {"csi": {"driver": "csi.gkm.io", "volumeAttributes": attributes}}


def claim(cache: str) -> Objects:
    """The volume of the claim that is named after `cache`."""
    return {"persistentVolumeClaim": {"claimName": cache}}


def push(cluster: Cluster, folder: Path, name: str, *arguments: str, below: str = ".") -> str:
    """Compile what `arguments` say into ``folder/below``, pack `folder` and push it to the cluster's registry as
    `name`; the reference that nodes know it by."""
    (folder / below).mkdir(parents=True)
    environment = {**os.environ, "TRITON_CACHE_DIR": str(folder / below)}
    command = [sys.executable, "-m", "gkm.local.demo_kernels", *arguments]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return pack(cluster, folder, name)


def push_made(cluster: Cluster, folder: Path, name: str, kernels: int) -> str:
    """The same with a cache that no compiler made, of so many kernels; no other has its digest."""
    for number in range(kernels):
        key = base64.b32encode(hashlib.sha256(f"{name} {number}".encode()).digest()).decode().rstrip("=")
        triton_entry(folder / key, arch=90, name=f"kernel{number}")
    return pack(cluster, folder, name)


def pack(cluster: Cluster, folder: Path, name: str) -> str:
    """Pack `folder` and push it to the cluster's registry as `name`; the reference that nodes know it by."""
    where = ["-n", "registry", "get"]
    service = cluster.kubectl(*where, "service", "registry", "-o", "jsonpath={.spec.clusterIP}")
    pod = cluster.kubectl(*where, "pod", "registry", "-o", "jsonpath={.status.podIP}")
    gkm = str(Path(sys.executable).with_name("gkm"))
    command = [gkm, "pack", "--plain-http", str(folder), f"{pod}:5000/{name}"]
    subprocess.run(command, check=True, capture_output=True)
    return f"{service}:5000/{name}"


def digest_of(cluster: Cluster, image: str) -> str:
    """The digest of an image in the cluster's registry, by the reference that nodes know it by."""
    repository, _, tag = image.partition("/")[2].rpartition(":")
    pod = cluster.kubectl("-n", "registry", "get", "pod", "registry", "-o", "jsonpath={.status.podIP}")
    request = urllib.request.Request(
        f"http://{pod}:5000/v2/{repository}/manifests/{tag}",
        method="HEAD",
        headers={"Accept": "application/vnd.oci.image.manifest.v1+json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(answer.headers["Docker-Content-Digest"])


def sleeper(namespace: str, name: str, volume: Objects) -> Objects:
    """A pod that holds `volume` at ``/cache`` and does nothing."""
    container = {
        "name": "workload",
        "image": BUSYBOX,
        "command": ["sleep", "100000"],
        "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "volumes": [{"name": "cache", **volume}],
        },
    }


def compiler(
    namespace: str, name: str, volume: Objects, path: str, *arguments: str, mount: Objects | None = None
) -> Objects:
    """A pod that runs the compiler with its cache at `path` (`mount` says more about that), and stays."""
    # The interpreter and the compiler are this machine's: its wheel is a gigabyte, and nodes see its files.
    seen = {
        "/python": sys.base_prefix,
        "/packages": next(p for p in sys.path if p.endswith("site-packages")),
        "/source": str(Path(package.__file__).parents[1]),
    }
    uid = random.randrange(100_000, 1_000_000)
    mounts: list[Objects] = [
        {"name": "cache", "mountPath": path, **(mount or {})},
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    volumes: list[Objects] = [{"name": "cache", **volume}, {"name": "tmp", "emptyDir": {}}]
    for target, source in seen.items():
        mounts.append({"name": target.strip("/"), "mountPath": target, "readOnly": True})
        volumes.append({"name": target.strip("/"), "hostPath": {"path": source, "type": "Directory"}})
    environment = {
        "PYTHONPATH": "/source:/packages",
        "LD_LIBRARY_PATH": "/python/lib",
        "TRITON_CACHE_DIR": path,
        "HOME": "/tmp",
    }
    python = f"/python/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    container = {
        "name": "workload",
        "image": "gkm.test/python:dev",
        "command": [python, "-c", _PROGRAM, *(arguments or ("--targets", TARGETS))],
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "volumeMounts": mounts,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsUser": uid, "runAsGroup": uid},
            "containers": [container],
            "volumes": volumes,
        },
    }


def compile_in_pod(
    cluster: Cluster, namespace: str, name: str, volume: Objects, path: str, *arguments: str
) -> Objects:
    """Run the compiler in a pod, and return its own account of what it compiled."""
    apply(cluster, compiler(namespace, name, volume, path, *arguments))
    return report(cluster, namespace, name)


def report(cluster: Cluster, namespace: str, pod: str) -> Objects:
    """What the compiler in `pod` tells once it is done."""

    def told() -> Objects | None:
        log = cluster.run_kubectl("-n", namespace, "logs", pod).stdout
        assert "Traceback" not in log, log
        lines = [line for line in log.splitlines() if line.startswith("report ")]
        return json.loads(lines[0].removeprefix("report ")) if lines else None

    found = eventually(told, f"{pod} reports", 180)
    assert found is not None
    return found


def reported(cluster: Cluster, namespace: str) -> dict[str, dict[str, Objects]]:
    """What nodes report of the namespace's cache ``kernels``: by node and digest."""
    reports = json.loads(cluster.kubectl("-n", namespace, "get", "gkmcn", "-o", "json"))["items"]
    return {
        each["metadata"]["name"]: each.get("status", {}).get("caches", {}).get("kernels", {})
        for each in reports
    }


def staged_on(cluster: Cluster, namespace: str, node: str) -> bool:
    """Whether `node` reports the newest digest of the cache ``kernels`` as staged."""
    digest = status(cluster, namespace).get("resolvedDigest", "")
    return bool(reported(cluster, namespace).get(node, {}).get(digest, {}).get("state") == "Staged")


def counted(cluster: Cluster, namespace: str, pod: str, **wanted: int) -> Objects | None:
    """The entry of `pod` in a node's report, once it holds what is `wanted`."""
    for digests in reported(cluster, namespace).values():
        for status in digests.values():
            for entry in status.get("pods", []):
                if entry["name"] == pod and wanted.items() <= entry.items():
                    return dict(entry)
    return None


def status(cluster: Cluster, namespace: str) -> Objects:
    """The status of the namespace's cache ``kernels``, empty until there is one."""
    found = json.loads(cluster.kubectl("-n", namespace, "get", "gkmc", "kernels", "-o", "json"))
    return dict(found.get("status", {}))


def row(cluster: Cluster, namespace: str) -> tuple[str, int]:
    """STATUS and POD-RUNNING of the cache ``kernels``."""
    found = status(cluster, namespace)
    return found.get("phase", ""), found["counts"]["podRunningCnt"]


def is_running(cluster: Cluster, namespace: str, pod: str) -> bool:
    """Whether all containers of `pod` run."""
    where = ("-n", namespace, "get", "pod", pod, "-o", "jsonpath={.status.containerStatuses[*].ready}")
    return cluster.run_kubectl(*where).stdout == "true"


def events(cluster: Cluster, namespace: str, pod: str) -> dict[str, str]:
    """The Events about `pod`: the last message of each reason."""
    where = ("-n", namespace, "get", "events", "--field-selector", f"involvedObject.name={pod}", "-o", "json")
    return {event["reason"]: event["message"] for event in json.loads(cluster.kubectl(*where))["items"]}


def entries(cluster: Cluster, namespace: str, pod: str) -> list[str]:
    """The entries that `pod` sees at ``/cache``, each as a digest of what it holds."""
    script = "cd /cache && for group in */__grp__*; do cat ${group%/*}/* | sha256sum | cut -c1-64; done"
    return cluster.kubectl("-n", namespace, "exec", pod, "--", "sh", "-c", script).split()
