"""Two nodes run real pods: logs, exec, the network between them; and go without a trace."""

import http.client
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import cgroups, images, network, node, processes
from devcluster.commands import run
from devcluster.errors import CommandError
from devcluster.system import BUSYBOX as BUSYBOX_PROGRAM
from support.devcluster import BUSYBOX, Cluster, running

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]


def pod(name: str, on: str, *command: str, **spec: object) -> dict[str, object]:
    container = {"name": "main", "image": BUSYBOX, "command": list(command), **spec.pop("container", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"nodeName": on, "containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


def apply(cluster: Cluster, *objects: dict[str, object]) -> None:
    cluster.kubectl(
        "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    )


@pytest.fixture(scope="module")
def pods(two_nodes: Cluster) -> Iterator[Cluster]:
    """A web server on node-1, behind a Service, and a pod that waits on node-2."""
    serve = "echo serving on $NODE; mkdir /www; echo welcome > /www/index.html; exec httpd -f -h /www"
    env = {"env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]}
    web = pod("web", "node-1", "sh", "-c", serve, container=env)
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
    apply(two_nodes, web, pod("client", "node-2", "sleep", "100000"), service)
    two_nodes.kubectl("wait", "--for=condition=Ready", "--timeout=120s", "pod/web", "pod/client")
    yield two_nodes
    two_nodes.kubectl("delete", "pod/web", "pod/client", "service/web")


def field(cluster: Cluster, kind: str, name: str, path: str) -> str:
    return cluster.kubectl("get", kind, name, "-o", f"jsonpath={{{path}}}")


def test_logs_and_exec_reach_pods_on_both_nodes(pods: Cluster) -> None:
    assert pods.kubectl("logs", "web") == "serving on node-1\n"
    assert pods.kubectl("exec", "client", "--", "hostname") == "client\n"
    assert pods.kubectl("exec", "-i", "web", "--", "cat", stdin="through\n") == "through\n"


def test_a_pod_reaches_a_pod_on_the_other_node(pods: Cluster) -> None:
    web, client = (field(pods, "pod", name, ".status.podIP") for name in ("web", "client"))
    assert web.rsplit(".", 1)[0] != client.rsplit(".", 1)[0]
    assert pods.kubectl("exec", "client", "--", "wget", "-qO-", f"http://{web}/") == "welcome\n"


@pytest.mark.parametrize("client", ["client", "web"])
def test_a_service_is_reached_from_the_other_node_and_from_its_own_pod(pods: Cluster, client: str) -> None:
    service = field(pods, "service", "web", ".spec.clusterIP")
    fetch = "for i in $(seq 50); do wget -qO- http://$0/ && exit; sleep 0.2; done; exit 1"
    assert pods.kubectl("exec", client, "--", "sh", "-c", fetch, service) == "welcome\n"


def test_the_host_reaches_a_pod_as_the_api_server_reaches_webhooks(pods: Cluster) -> None:
    connection = http.client.HTTPConnection(field(pods, "pod", "web", ".status.podIP"), timeout=10)
    connection.request("GET", "/")
    assert connection.getresponse().read() == b"welcome\n"
    connection.close()


def test_an_image_archive_is_loaded_into_a_node(two_nodes: Cluster, tmp_path: Path) -> None:
    name = "gkm.test/loaded:1"
    images.busybox(tmp_path / "image.tar", BUSYBOX_PROGRAM, name)
    node.load(two_nodes.layout, "node-2", tmp_path / "image.tar")
    runs = {"image": name, "imagePullPolicy": "Never"}
    apply(two_nodes, pod("loaded", "node-2", "echo", "it runs", container=runs, restartPolicy="Never"))
    succeeded = "--for=jsonpath={.status.phase}=Succeeded"
    two_nodes.kubectl("wait", succeeded, "--timeout=60s", "pod/loaded")
    assert two_nodes.kubectl("logs", "loaded") == "it runs\n"
    two_nodes.kubectl("delete", "pod", "loaded")


def test_a_pod_speaks_to_the_api_server_as_its_service_account(pods: Cluster) -> None:
    folder = "/var/run/secrets/kubernetes.io/serviceaccount"
    token = pods.kubectl("exec", "client", "--", "cat", f"{folder}/token")
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    answer = pods.api.json("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
    user = answer["status"]["user"]
    assert user["username"] == "system:serviceaccount:default:default"
    # Which node a token was made for: what admission policies for node agents stand on.
    assert user["extra"]["authentication.kubernetes.io/node-name"] == ["node-2"]
    address = pods.kubectl("exec", "client", "--", "sh", "-c", "echo $KUBERNETES_SERVICE_HOST").strip()
    assert address == pods.spec.service_ip
    pods.kubectl("exec", "client", "--", "sh", "-c", "nc -w 10 $0 443 </dev/null", address)


def test_the_same_host_path_is_another_folder_on_each_node(two_nodes: Cluster) -> None:
    names = ["node-1", "node-2"]
    write = "cat /store/name 2>/dev/null; echo $0 > /store/name; ls /store"
    volume = {
        "name": "store",
        "hostPath": {"path": "/var/lib/host-path-of-a-test", "type": "DirectoryOrCreate"},
    }
    mount = {"volumeMounts": [{"name": "store", "mountPath": "/store"}]}
    for name in names:
        one = pod(
            f"on-{name}",
            name,
            "sh",
            "-c",
            write,
            name,
            container=mount,
            volumes=[volume],
            restartPolicy="Never",
        )
        apply(two_nodes, one)
        two_nodes.kubectl(
            "wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s", f"pod/on-{name}"
        )
        assert two_nodes.kubectl("logs", f"on-{name}") == "name\n"
        assert (two_nodes.layout.node(name) / "lib/host-path-of-a-test/name").read_text() == f"{name}\n"
    two_nodes.kubectl("delete", *[f"pod/on-{name}" for name in names])


def test_a_mount_made_in_a_privileged_pod_is_seen_by_its_node_and_no_other(two_nodes: Cluster) -> None:
    script = "mkdir -p /kubelet/plugins/test && mount -t tmpfs proof /kubelet/plugins/test && sleep 100000"
    volume = {"name": "kubelet", "hostPath": {"path": "/var/lib/kubelet"}}
    mounts = {
        "securityContext": {"privileged": True},
        "volumeMounts": [{"name": "kubelet", "mountPath": "/kubelet", "mountPropagation": "Bidirectional"}],
        "readinessProbe": {"exec": {"command": ["grep", "-q", "proof", "/proc/mounts"]}, "periodSeconds": 1},
    }
    apply(two_nodes, pod("mounter", "node-1", "sh", "-c", script, container=mounts, volumes=[volume]))
    two_nodes.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "pod/mounter")
    look = ["grep", "proof /var/lib/kubelet/plugins/test tmpfs", "/proc/mounts"]
    assert run([*node.inside(two_nodes.layout, "node-1"), *look])
    with pytest.raises(CommandError):
        run([*node.inside(two_nodes.layout, "node-2"), *look])
    assert "proof" not in Path("/proc/mounts").read_text()
    two_nodes.kubectl("delete", "pod", "mounter")
    run([*node.inside(two_nodes.layout, "node-1"), "umount", "/var/lib/kubelet/plugins/test"])


@pytest.mark.parametrize("daemon", ["kubelet", "containerd"])
def test_a_killed_daemon_comes_back(two_nodes: Cluster, daemon: str) -> None:
    before = node.daemon(two_nodes.layout, "node-2", daemon)
    two_nodes.kill_daemon("node-2", daemon)
    assert node.daemon(two_nodes.layout, "node-2", daemon) != before
    apply(two_nodes, pod("after", "node-2", "true", restartPolicy="Never"))
    two_nodes.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s", "pod/after")
    two_nodes.kubectl("delete", "pod", "after")


def test_a_rebooted_node_has_its_disk_and_nothing_else(two_nodes: Cluster) -> None:
    volumes = [{"name": "disk", "hostPath": {"path": "/var/lib/disk-of-a-test", "type": "DirectoryOrCreate"}}]
    script = "echo start >> /disk/starts; sleep 100000"
    mount = {"volumeMounts": [{"name": "disk", "mountPath": "/disk"}]}
    apply(two_nodes, pod("stays", "node-2", "sh", "-c", script, container=mount, volumes=volumes))
    two_nodes.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "pod/stays")
    disk = two_nodes.layout.node("node-2") / "lib" / "disk-of-a-test"
    run(
        [
            *node.inside(two_nodes.layout, "node-2"),
            "mount",
            "-t",
            "tmpfs",
            "of-a-test",
            "/var/lib/disk-of-a-test",
        ]
    )
    assert "of-a-test" in _mounts(two_nodes, "node-2")

    two_nodes.reboot("node-2")
    assert "of-a-test" not in _mounts(two_nodes, "node-2")
    restarts = "jsonpath={.status.containerStatuses[0].restartCount}"
    while two_nodes.kubectl("get", "pod", "stays", "-o", restarts) != "1":
        time.sleep(0.2)
    two_nodes.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "pod/stays")
    assert (disk / "starts").read_text() == "start\nstart\n"
    two_nodes.kubectl("delete", "pod", "stays")


def test_a_killed_cluster_with_pods_is_replaced_and_down_leaves_nothing() -> None:
    with running(1) as cluster:
        layout, spec = cluster.layout, cluster.spec
        apply(cluster, pod("sleeper", "node-1", "sleep", "100000"))
        cluster.kubectl("wait", "--for=condition=Ready", "--timeout=120s", "pod/sleeper")
        sleeper = run([*node.inside(layout, "node-1"), "pgrep", "-f", "-x", "sleep 100000"]).strip()
        assert sleeper
        namespaces = {Path(f"/proc/{i.pid}/ns/net").readlink() for i in processes.members(layout.folder)}
        namespaces.discard(Path("/proc/self/ns/net").readlink())
        assert len(namespaces) == 2  # the switch and the node

        for identity in processes.members(layout.folder):
            processes.send(identity, signal.SIGKILL)
        again = Cluster.up(layout, nodes=1)
        assert node.ready(again.api, "node-1")

        again.down()
        assert processes.members(layout.folder) == []
        assert not namespaces & _network_namespaces()
        assert not layout.folder.exists()
        assert not (Path("/sys/class/net") / network.interface(spec.name)).exists()
        assert cgroups.leftovers(spec.name) == []
        assert layout.name not in Path("/proc/self/mountinfo").read_text()


def _mounts(cluster: Cluster, name: str) -> str:
    return run([*node.inside(cluster.layout, name), "cat", "/proc/self/mountinfo"])


def _network_namespaces() -> set[Path]:
    """Those that some process of the machine is in."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                found.add((folder / "ns" / "net").readlink())
            except OSError:
                continue  # ended meanwhile
    return found
