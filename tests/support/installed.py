"""What `deploy/` installs, as tests need it: rendered, applied to a cluster, and seen by its accounts."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml

from support.devcluster import Cluster
from support.parts import REPOSITORY

T = TypeVar("T")

SYSTEM = "gkm-system"
POLICIES = REPOSITORY / "deploy" / "base" / "policies"
OVERLAYS = sorted(path.name for path in (REPOSITORY / "deploy" / "overlays").iterdir())


def rendered(cluster: Cluster, overlay: str) -> list[dict[str, Any]]:
    """The objects of an overlay, as kustomize makes them."""
    text = cluster.kubectl("kustomize", str(REPOSITORY / "deploy" / "overlays" / overlay))
    return [document for document in yaml.safe_load_all(text) if document]


def apply(cluster: Cluster, *objects: dict[str, Any], dry_run: bool = False) -> None:
    """Apply `objects`, on the server's side."""
    words = ["apply", "--server-side", "--force-conflicts", "-f", "-", *(["--dry-run=server"] * dry_run)]
    cluster.kubectl(*words, stdin=yaml.safe_dump_all(objects))


@contextmanager
def guarded(cluster: Cluster) -> Iterator[None]:
    """The cluster with GKM's definitions, accounts and policies, but none of its processes.

    The policies are removed again: they forbid what other tests do as the administrator.
    """
    wanted = [
        document
        for document in rendered(cluster, "default")
        if document["kind"] not in ("Deployment", "DaemonSet")
    ]
    try:
        apply(cluster, *(document for document in wanted if document["kind"] == "Namespace"))
        apply(cluster, *(document for document in wanted if document["kind"] != "Namespace"))
        crds = [
            document["metadata"]["name"] for document in wanted if document["kind"].startswith("CustomRes")
        ]
        cluster.kubectl("wait", "--for=condition=Established", "crd", *crds, "--timeout=60s")
        yield
    finally:
        cluster.kubectl("delete", "-f", str(POLICIES), "--ignore-not-found")


def token_user(cluster: Cluster, account: str, *bound: str, namespace: str = SYSTEM) -> Path:
    """A kubeconfig with a fresh token of the service account `account`, by default one of gkm-system's.

    `bound` are words for ``kubectl create token``, as in ``--bound-object-kind=Pod --bound-object-name=NAME``.
    """
    token = cluster.kubectl("-n", namespace, "create", "token", account, *bound).strip()
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"] = [{"name": entry["name"], "user": {"token": token}} for entry in config["users"]]
    path = cluster.layout.folder / f"{uuid.uuid4().hex}.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return path


def eventually(condition: Callable[[], T], what: str, seconds: float = 60.0) -> T:
    """What `condition` gives once that is true; it is asked four times a second, the cluster being real."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"did not come true within {seconds:.0f} s: {what}")
        time.sleep(0.25)
    return found


def eventually_none(find: Callable[[], list[str]], what: str, seconds: float = 60.0) -> None:
    """Wait until `find` finds nothing; the failure tells what it found last."""
    seen: list[str] = []

    def clean() -> bool:
        seen[:] = find()
        return not seen

    try:
        eventually(clean, what, seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}; there is: {seen}") from None
