"""The programs a cluster consists of: what is built, from which pinned module, with which flags.

Versions live in ``go/*/go.mod`` (with their ``go.sum``) and nowhere else. Every program is the upstream
one, built by the ordinary Go client.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

MODULES = Path(__file__).resolve().parent / "go"

# Kubernetes is built with the Go minor it was released with: Go 1.27 changed how JSON is encoded, and an
# API server built with it answers /openapi/v2 with an error.
GO_MINOR = "1.26"
GO_PINNED = "go1.26.8"


@dataclass(frozen=True)
class Module:
    """One folder with a go.mod, built as a set; its key is part of the cache folder's name."""

    name: str
    cgo: bool = False
    tags: str = ""

    @property
    def folder(self) -> Path:
        """Where go.mod lies."""
        return MODULES / self.name

    @cached_property
    def kubernetes_version(self) -> str | None:
        """The version of k8s.io/kubernetes that go.mod requires, or None where it requires none."""
        found = re.search(
            r"^\s*k8s\.io/kubernetes (v\S+)", (self.folder / "go.mod").read_text(), re.MULTILINE
        )
        return found.group(1) if found else None

    @property
    def ldflags(self) -> str:
        """Strip symbols; tell Kubernetes its version, which its own build script would have done.

        Without it the API server calls itself v0.0.0-master and kubelet is refused as too new for it.
        """
        flags = ["-s", "-w"]
        if version := self.kubernetes_version:
            major, minor = version.removeprefix("v").split(".")[:2]
            for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
                flags += [f"-X {package}.gitVersion={version}"]
                flags += [f"-X {package}.gitMajor={major}", f"-X {package}.gitMinor={minor}"]
        return " ".join(flags)


KUBERNETES = Module("kubernetes")
CONTAINERD = Module("containerd")
# Without the tag no pod with a seccomp profile starts, and kubelet's default asks for one.
RUNC = Module("runc", cgo=True, tags="seccomp")
PAUSE = Module("pause")


@dataclass(frozen=True)
class Program:
    """One executable: its file name, its module and the Go package of its main function."""

    name: str
    module: Module
    package: str


def _kubernetes(name: str) -> Program:
    return Program(name, KUBERNETES, f"k8s.io/kubernetes/cmd/{name}")


def _containerd(name: str) -> Program:
    return Program(name, CONTAINERD, f"github.com/containerd/containerd/v2/cmd/{name}")


# The longest build first: where two builders share a machine, the second waits least for what it needs.
CONTROL_PLANE = (
    _kubernetes("kube-apiserver"),
    # The etcd that this Kubernetes is released with. Debian's 3.4 lacks RequestProgress for watches, so that
    # the API server would answer consistent lists and streaming lists in another way than on real clusters.
    Program("etcd", KUBERNETES, "go.etcd.io/etcd/server/v3"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kubectl"),
)
NODE = (
    _kubernetes("kubelet"),
    _kubernetes("kube-proxy"),
    _containerd("containerd"),
    _containerd("containerd-shim-runc-v2"),
    _containerd("ctr"),
    Program("runc", RUNC, "github.com/opencontainers/runc"),
    Program("pause", PAUSE, "."),
)


def programs(nodes: int) -> tuple[Program, ...]:
    """What a cluster with `nodes` nodes is made of, in build order."""
    return CONTROL_PLANE + (NODE if nodes else ())
