"""etcd, kube-apiserver, kube-controller-manager, kube-scheduler: their certificates, arguments and order."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from devcluster import kubeconfig
from devcluster.audit import POLICY
from devcluster.layout import Layout, Spec
from devcluster.pki import Authority, make_signing_key
from gkm.base.files import write_atomic

# In starting order.
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
ADMIN = "kubernetes-admin"


@dataclass(frozen=True)
class ControlPlane:
    """What the control plane of one cluster is started from."""

    layout: Layout
    spec: Spec

    @property
    def authority(self) -> Authority:
        """The cluster's certificate authority."""
        return Authority(self.layout.pki)

    def prepare(self) -> None:
        """Write all keys, certificates, kubeconfigs and configuration files."""
        layout = self.layout
        for folder in (
            layout.logs,
            layout.run,
            layout.audit_log.parent,
            layout.bin,
            layout.registries,
            layout.folder / "etcd",
        ):
            folder.mkdir(mode=0o700)
        (layout.bin / "kubectl").symlink_to(self.spec.programs["kubectl"])
        write_atomic(layout.audit_log.parent / "policy.json", json.dumps(POLICY, indent=2).encode())
        authority = self.authority
        authority.create()
        make_signing_key(layout.pki / "sa.key", layout.pki / "sa.pub")
        front_proxy = Authority(layout.pki / "front-proxy")
        front_proxy.create()
        front_proxy.issue("client", "front-proxy-client")
        # What serves on loopback only: etcd, controller manager, scheduler.
        authority.issue("loopback", "gkm-devcluster-loopback", names=["IP:127.0.0.1", "DNS:localhost"])
        addresses = dict.fromkeys(["127.0.0.1", self.spec.address, self.spec.service_ip])
        hosts = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        hosts += ["kubernetes.default.svc.cluster.local"]
        authority.issue(
            "apiserver",
            "kube-apiserver",
            names=[f"IP:{a}" for a in addresses] + [f"DNS:{h}" for h in hosts],
        )
        authority.issue(
            "apiserver-kubelet-client", "kube-apiserver-kubelet-client", groups=["system:masters"]
        )
        self.user(ADMIN, ["system:masters"], layout.kubeconfig)
        for component in COMPONENTS[2:]:
            self.user(f"system:{component}", [], layout.folder / f"{component}.kubeconfig")

    def user(self, user: str, groups: list[str], path: Path) -> Path:
        """Issue a client certificate for `user` in `groups` and write their kubeconfig to `path`."""
        pair = self.authority.issue(f"user-{path.name}", user, groups=groups)
        return kubeconfig.write(
            path,
            cluster=self.spec.name,
            server=self.spec.server,
            authority=self.authority.certificate,
            user=user,
            pair=pair,
        )

    def arguments(self, component: str) -> list[str]:
        """The command line of `component`, program first."""
        flags = {
            "etcd": self._etcd,
            "kube-apiserver": self._apiserver,
            "kube-controller-manager": self._controller_manager,
            "kube-scheduler": self._scheduler,
        }[component]()
        values = (f"--{flag}={value}" if value is not True else f"--{flag}" for flag, value in flags.items())
        return [self.spec.programs[component], *values]

    def environment(self) -> dict[str, str]:
        """What a component may see of the caller's environment: not its proxies, not its credentials."""
        return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.layout.folder)}

    def _etcd(self) -> dict[str, object]:
        client = f"https://127.0.0.1:{self.spec.etcd_port}"
        peer = f"https://127.0.0.1:{self.spec.etcd_peer_port}"
        pki = self.layout.pki
        return {
            "name": "default",
            "data-dir": self.layout.folder / "etcd" / "data",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "client-cert-auth": True,
            "trusted-ca-file": pki / "ca.crt",
            "cert-file": pki / "loopback.crt",
            "key-file": pki / "loopback.key",
            "peer-client-cert-auth": True,
            "peer-trusted-ca-file": pki / "ca.crt",
            "peer-cert-file": pki / "loopback.crt",
            "peer-key-file": pki / "loopback.key",
            # A cluster here does not outlive the machine's power; without fsync it starts in half the time.
            "unsafe-no-fsync": True,
            # As kubeadm sets it: the API server's watch cache learns from it that it is fresh.
            "watch-progress-notify-interval": "5s",
            "log-level": "warn",
        }

    def _apiserver(self) -> dict[str, object]:
        pki = self.layout.pki
        return {
            "bind-address": self.spec.address,
            "advertise-address": self.spec.address,
            "secure-port": self.spec.apiserver_port,
            # The endpoints of `kubernetes.default` may not be a loopback address.
            "endpoint-reconciler-type": "none" if self.spec.network is None else "lease",
            "etcd-servers": f"https://127.0.0.1:{self.spec.etcd_port}",
            "etcd-cafile": pki / "ca.crt",
            "etcd-certfile": pki / "loopback.crt",
            "etcd-keyfile": pki / "loopback.key",
            "client-ca-file": pki / "ca.crt",
            "tls-cert-file": pki / "apiserver.crt",
            "tls-private-key-file": pki / "apiserver.key",
            # Aggregated APIs: how they know that it is this server that vouches for a user.
            "requestheader-client-ca-file": pki / "front-proxy" / "ca.crt",
            "requestheader-allowed-names": "front-proxy-client",
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "proxy-client-cert-file": pki / "front-proxy" / "client.crt",
            "proxy-client-key-file": pki / "front-proxy" / "client.key",
            "kubelet-certificate-authority": pki / "ca.crt",
            "kubelet-client-certificate": pki / "apiserver-kubelet-client.crt",
            "kubelet-client-key": pki / "apiserver-kubelet-client.key",
            "kubelet-preferred-address-types": "InternalIP",
            "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
            "service-account-key-file": pki / "sa.pub",
            "service-account-signing-key-file": pki / "sa.key",
            "service-cluster-ip-range": self.spec.services,
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "allow-privileged": "true",
            # The host has no kube-proxy: webhooks and aggregated APIs are reached at pod addresses.
            "enable-aggregator-routing": "true",
            "audit-policy-file": self.layout.audit_log.parent / "policy.json",
            "audit-log-path": self.layout.audit_log,
            "audit-log-maxsize": 1000,  # MiB before it is rotated: tests read one file
            "profiling": "false",
        }

    def _controller_manager(self) -> dict[str, object]:
        pki = self.layout.pki
        config = self.layout.folder / "kube-controller-manager.kubeconfig"
        return {
            "bind-address": "127.0.0.1",
            "secure-port": self.spec.controller_manager_port,
            "kubeconfig": config,
            "authentication-kubeconfig": config,
            "authorization-kubeconfig": config,
            "client-ca-file": pki / "ca.crt",
            "tls-cert-file": pki / "loopback.crt",
            "tls-private-key-file": pki / "loopback.key",
            "cluster-name": self.spec.name,
            "cluster-signing-cert-file": pki / "ca.crt",
            "cluster-signing-key-file": pki / "ca.key",
            "root-ca-file": pki / "ca.crt",
            "service-account-private-key-file": pki / "sa.key",
            "use-service-account-credentials": "true",
            "controllers": "*,bootstrapsigner,tokencleaner",
            # One replica: leases of its own would only fill the audit log.
            "leader-elect": "false",
            # Its default of 20 requests a second makes the start of its 40 controllers take 5 s longer.
            "kube-api-qps": 200,
            "kube-api-burst": 400,
            "profiling": "false",
        }

    def _scheduler(self) -> dict[str, object]:
        pki = self.layout.pki
        config = self.layout.folder / "kube-scheduler.kubeconfig"
        return {
            "bind-address": "127.0.0.1",
            "secure-port": self.spec.scheduler_port,
            "kubeconfig": config,
            "authentication-kubeconfig": config,
            "authorization-kubeconfig": config,
            "client-ca-file": pki / "ca.crt",
            "tls-cert-file": pki / "loopback.crt",
            "tls-private-key-file": pki / "loopback.key",
            "leader-elect": "false",
            "profiling": "false",
        }
