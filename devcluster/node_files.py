"""What a node's daemons are configured with: certificates, images, CNI, kubelet, kube-proxy, containerd."""

import json
from pathlib import Path

from devcluster import cgroups, images, network
from devcluster.control_plane import ControlPlane
from devcluster.layout import Layout
from devcluster.system import BUSYBOX, CNI_PLUGINS
from gkm.base.files import write_atomic

CONTAINERD = "/run/containerd/containerd.sock"  # in the node's own /run


def write(plane: ControlPlane, node: str, folder: Path) -> None:
    """Write all files of `node` into its folder."""
    address = network.node_address(plane.spec, node)
    serving = plane.authority.issue(f"serving-{node}", node, names=[f"DNS:{node}", f"IP:{address}"])
    plane.user(f"system:node:{node}", ["system:nodes"], folder / "kubelet.kubeconfig")
    plane.user("system:kube-proxy", [], folder / "kube-proxy.kubeconfig")
    images.pause(folder / "pause.tar", Path(plane.spec.programs["pause"]))
    images.busybox(folder / "busybox.tar", BUSYBOX)
    (folder / "resolv.conf").write_text("")
    (folder / "cni").mkdir()
    documents: dict[str, object] = {
        "cni/10-gkm.conflist": _cni(plane, node),
        "kubelet.json": _kubelet(plane, node, folder, str(serving.certificate), str(serving.key)),
        "kube-proxy.json": _kube_proxy(plane, node, folder),
    }
    for name, document in documents.items():
        write_atomic(folder / name, json.dumps(document, indent=2).encode() + b"\n")
    write_atomic(folder / "containerd.toml", _containerd(plane.layout, folder).encode())


def _cni(plane: ControlPlane, node: str) -> dict[str, object]:
    """Point-to-point, not a bridge: pods are routed, so a Service works between pods of one node as well.

    On a bridge the answer would go back without passing the rules that translated the request.
    """
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": network.pod_cidr(plane.spec, node)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": "/run/cni",
    }
    return {
        "cniVersion": "1.0.0",
        "name": "gkm",
        "plugins": [
            {"type": "ptp", "ipMasq": False, "ipam": ipam},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def _kubelet(plane: ControlPlane, node: str, folder: Path, certificate: str, key: str) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(plane.authority.certificate)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": certificate,
        "tlsPrivateKeyFile": key,
        "containerRuntimeEndpoint": f"unix://{CONTAINERD}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroups.root(plane.spec.name, node),
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [plane.spec.dns_ip],
        "clusterDomain": "cluster.local",
        "resolvConf": str(folder / "resolv.conf"),
        "serializeImagePulls": False,
        "makeIPTablesUtilChains": False,  # kube-proxy speaks nftables
        # The disk is the developer's: however full it is, it does not evict pods here.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
        # Drivers are asked how full their volumes are this often; once a minute by default, which tests wait for.
        "volumeStatsAggPeriod": "10s",
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    }


def _kube_proxy(plane: ControlPlane, node: str, folder: Path) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(folder / "kube-proxy.kubeconfig")},
        "mode": "nftables",
        "hostnameOverride": node,
        "detectLocalMode": "ClusterCIDR",
        "clusterCIDR": network.all_pods(plane.spec),
        # These belong to the whole machine and cannot be set from a network namespace.
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def _containerd(layout: Layout, folder: Path) -> str:
    """Configuration version 3 of containerd 2."""
    return f"""\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = "{CONTAINERD}"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{images.PAUSE}"

# One folder per registry that nodes shall reach otherwise than by its name: hosts.toml, as containerd has it.
[plugins."io.containerd.cri.v1.images".registry]
config_path = "{layout.registries}"

[plugins."io.containerd.cri.v1.runtime"]
# Not every machine grants CAP_SYS_RESOURCE, without which a score can only be raised.
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{CNI_PLUGINS}"]
conf_dir = "{folder / "cni"}"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
"""
