"""Who may do what: the table from which RBAC's manifests are made, so that a right has one place and a reason.

``python tools/rbac.py`` writes ``deploy/base/**/rbac.yaml`` and ``user-roles.yaml``; with ``--check`` it only
says what would change. `tools/deploy_config.py` does the same for gkm-config.
"""

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gkm.api.definitions import (
    CLUSTER_GKM_CACHE,
    CLUSTER_GKM_CACHE_NODE,
    DEFINITIONS,
    GKM_CACHE,
    GKM_CACHE_NODE,
    GKM_GRANT,
)
from gkm.api.names import SYSTEM_NAMESPACE
from gkm.api.wire import GROUP

BASE = Path("deploy/base")
_READ = "get list watch"
_CACHES = f"{GKM_CACHE.plural} {CLUSTER_GKM_CACHE.plural}"
_REPORTS = f"{GKM_CACHE_NODE.plural} {CLUSTER_GKM_CACHE_NODE.plural}"


def _below(plurals: str, subresource: str) -> str:
    return " ".join(f"{plural}/{subresource}" for plural in plurals.split())


@dataclass(frozen=True)
class Right:
    """Verbs on resources of one API group, both as words in a text, and why they are needed."""

    group: str
    resources: str
    verbs: str
    why: str

    def rule(self) -> dict[str, Any]:
        """As RBAC has it."""
        return {"apiGroups": [self.group], "resources": self.resources.split(), "verbs": self.verbs.split()}


@dataclass(frozen=True)
class Account:
    """A process and its rights: in the whole cluster, and in the system namespace."""

    name: str
    cluster: list[Right]
    system: list[Right] = field(default_factory=list)


OPERATOR = Account(
    "gkm-operator",
    [
        Right(GROUP, _CACHES, f"{_READ} patch", "finalizers, and upstream's annotations"),
        Right(GROUP, _below(_CACHES, "status"), "patch", "conditions, phase and counts"),
        Right(GROUP, GKM_GRANT.plural, f"{_READ} create patch delete", "what nodes may stage and mount"),
        Right(GROUP, _REPORTS, _READ, "counts"),
        Right("", "persistentvolumes", f"{_READ} create delete", "one for each cache and namespace"),
        Right("", "persistentvolumeclaims", f"{_READ} create delete", "one for each cache and namespace"),
        Right("", "namespaces", _READ, "which namespaces exist, and which are going"),
        Right("", "nodes", _READ, "which reports count, and which nodes a cache is for"),
        Right("", "secrets", "get", "pull secrets, by the names that caches give; never listed"),
        Right("events.k8s.io", "events", "create patch", "what happened to a cache"),
    ],
    [
        Right("", "secrets", f"{_READ} create patch delete", "pull secrets as agents may read them"),
        Right("coordination.k8s.io", "leases", f"{_READ} create update patch", "which replica leads"),
    ],
)
AGENT = Account(
    "gkm-agent",
    [
        Right(GROUP, GKM_GRANT.plural, _READ, "what it may stage and mount"),
        Right(GROUP, _REPORTS, f"{_READ} create patch delete", "its own node's report (policy gkm-own-node)"),
        Right(GROUP, _below(_REPORTS, "status"), "patch", "its own node's report (policy gkm-own-node)"),
        Right("", "pods", _READ, "its own node's pods: where they mount a cache, and whether they still run"),
        Right("", "nodes", _READ, "its own node: labels that caches select by, and the owner of its reports"),
        Right("events.k8s.io", "events", "create patch", "why a pod started cold"),
    ],
    [Right("", "secrets", "get", "the pull secrets that the operator put there")],
)
USERS = {
    "edit": Right(GROUP, GKM_CACHE.plural, f"{_READ} create update patch delete deletecollection", "caches"),
    "view": Right(GROUP, f"{GKM_CACHE.plural} {GKM_CACHE_NODE.plural}", _READ, "caches, and nodes' reports"),
}
"""What owners and viewers of a namespace get, added to Kubernetes' own roles of these names."""


def manifests(account: Account) -> list[dict[str, Any]]:
    """The account, its roles and their bindings."""
    subject = {"kind": "ServiceAccount", "name": account.name, "namespace": SYSTEM_NAMESPACE}
    made: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _meta(account.name, SYSTEM_NAMESPACE)}
    ]
    for kind, namespace, rights in (
        ("ClusterRole", "", account.cluster),
        ("Role", SYSTEM_NAMESPACE, account.system),
    ):
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": account.name}
        made.append(_role(kind, _meta(account.name, namespace), rights))
        made.append(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": f"{kind}Binding",
                "metadata": _meta(account.name, namespace),
                "roleRef": role,
                "subjects": [subject],
            }
        )
    return made


def user_roles() -> list[dict[str, Any]]:
    """Roles that Kubernetes adds to its own (Kubernetes, "Aggregated ClusterRoles")."""
    made = []
    for name, right in USERS.items():
        metadata: dict[str, Any] = _meta(f"gkm-{name}", "")
        metadata["labels"] = {f"rbac.authorization.k8s.io/aggregate-to-{name}": "true"}
        made.append(_role("ClusterRole", metadata, [right]))
    return made


def generated() -> dict[Path, str]:
    """Every file's text, by path below the root of the repository."""
    return {
        BASE / "operator/rbac.yaml": _text(manifests(OPERATOR), [*OPERATOR.cluster, *OPERATOR.system]),
        BASE / "agent/rbac.yaml": _text(manifests(AGENT), [*AGENT.cluster, *AGENT.system]),
        BASE / "user-roles.yaml": _text(user_roles(), list(USERS.values())),
        Path("deploy/crds/Kustomization"): _crds(),
    }


def main() -> int:
    """The command; exit status 1 where `--check` found drift."""
    parser = argparse.ArgumentParser(prog="tools/rbac.py", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if something would")
    check = parser.parse_args().check
    changed = [path for path, text in generated().items() if not path.is_file() or path.read_text() != text]
    for path in changed:
        if not check:
            path.write_text(generated()[path])
        print(f"{path}: {'differs from tools/rbac.py; run `make generate`' if check else 'written'}")
    return 1 if check and changed else 0


def _role(kind: str, metadata: dict[str, Any], rights: list[Right]) -> dict[str, Any]:
    rules = [right.rule() for right in rights]
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "rules": rules}


def _meta(name: str, namespace: str) -> dict[str, Any]:
    return {"name": name, "namespace": namespace} if namespace else {"name": name}


def _crds() -> str:
    files = sorted(f"{GROUP}_{definition.plural}.yaml" for definition in DEFINITIONS)
    document = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": files,
    }
    return "# Made by tools/rbac.py.\n" + yaml.safe_dump(document, sort_keys=False)


def _text(documents: list[dict[str, Any]], rights: list[Right]) -> str:
    reasons = [f"#   {right.resources.replace(' ', ', ')}: {right.why}\n" for right in rights]
    head = "# Made by tools/rbac.py. What each right is for:\n" + "".join(reasons)
    return head + "---\n".join(yaml.safe_dump(document, sort_keys=False) for document in documents)


if __name__ == "__main__":
    sys.exit(main())
