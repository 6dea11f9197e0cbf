"""The stores that the operator reads: everything that bears on a cache, without a request."""

from collections.abc import Iterable, Iterator

from gkm.api.grant import GKMGrant
from gkm.api.names import MANAGER, Label
from gkm.api.values import CacheKind
from gkm.kube.manager import Manager
from gkm.kube.objects import Key
from gkm.operator.objects import (
    CLAIMS,
    GRANTS,
    NAMESPACES,
    NODES,
    SECRETS,
    VOLUMES,
    Cache,
    Claim,
    Node,
    Report,
    Secret,
    Volume,
    uid_of,
)
from gkm.operator.scope import (
    CLUSTER,
    NAMESPACED,
    attributed_key,
    granted_key,
    scope_of,
    workload_namespaces,
)
from gkm.operator.settings import Settings
from gkm.operator.volumes import Place, is_ours, volume_name

_OURS = f"{Label.MANAGED_BY}={MANAGER}"
_SCOPES = (NAMESPACED, CLUSTER)


def secret_name(uid: str) -> str:
    """The name of the mirrored pull secret of the cache with this UID."""
    return f"gkm-pull-{uid}"


def cache_uid(obj: Claim | Volume | Secret) -> str | None:
    """The UID of the cache that `obj` was made for, where its labels say that it was made for one."""
    labels = obj.metadata.labels or {}
    return labels.get(Label.CACHE_UID) if labels.get(Label.MANAGED_BY) == MANAGER else None


class World:
    """The operator's reflectors, one per resource, and what is looked up in them."""

    def __init__(self, manager: Manager, settings: Settings) -> None:
        self._system = settings.system_namespace
        self.caches = {scope.kind: manager.reflect(scope.caches) for scope in _SCOPES}
        self.reports = {scope.kind: manager.reflect(scope.reports) for scope in _SCOPES}
        self.grants = manager.reflect(GRANTS)
        self.volumes = manager.reflect(VOLUMES, labels=_OURS)
        self.claims = manager.reflect(CLAIMS)
        self.secrets = manager.reflect(SECRETS, self._system, labels=_OURS)
        self.namespaces = manager.reflect(NAMESPACES)
        self.nodes = manager.reflect(NODES)
        for scope in _SCOPES:
            self.caches[scope.kind].store.add_index("uid", lambda cache: [uid_of(cache)])
            self.caches[scope.kind].store.add_index("namespace", _served)
            self.reports[scope.kind].store.add_index("cache", _reported)
            self.reports[scope.kind].store.add_index("node", lambda report: [report.metadata.name or ""])
        self.grants.store.add_index("cache", lambda grant: [str(granted_key(grant.spec.cache))])
        self.volumes.store.add_index("uid", _uid_value)
        self.volumes.store.add_index("cache", lambda volume: [str(key) for key in volume_keys(volume)])
        self.claims.store.add_index("uid", _uid_value)
        self.claims.store.add_index(
            "cache", lambda claim: [claim.metadata.name] if cache_uid(claim) is not None else []
        )

    def cache(self, key: Key) -> Cache | None:
        """The cache at `key`."""
        return self.caches[scope_of(key).kind].store.get(key)

    def all_caches(self) -> Iterator[tuple[CacheKind, Cache]]:
        """Every cache, with its kind."""
        for kind, reflector in self.caches.items():
            yield from ((kind, cache) for cache in reflector.store.objects())

    def is_live(self, uid: str) -> bool:
        """Whether a cache has this UID."""
        return any(self.caches[scope.kind].store.by_index("uid", uid) for scope in _SCOPES)

    def grant(self, uid: str) -> GKMGrant | None:
        """The grant of the cache with this UID."""
        return self.grants.store.get(Key("", uid))

    def reports_on(self, key: Key) -> list[Report]:
        """The node reports that name the cache at `key`."""
        return self.reports[scope_of(key).kind].store.by_index("cache", str(key))

    def nodes_by_name(self, reports: Iterable[Report]) -> dict[str, Node]:
        """The nodes that `reports` are named after, those that exist."""
        names = (report.metadata.name or "" for report in reports)
        found = ((name, self.nodes.store.get(Key("", name))) for name in names)
        return {name: node for name, node in found if node is not None}

    def has_candidates(self, selector: dict[str, str] | None) -> bool:
        """Whether a node has all labels of `selector`."""
        wanted = (selector or {}).items()
        return any(wanted <= (node.metadata.labels or {}).items() for node in self.nodes.store.objects())

    def place(self, cache: str, uid: str, namespace: str) -> Place:
        """What there is of the cache with this name and UID in `namespace`."""
        return Place(
            namespace=namespace,
            there=self.namespaces.store.get(Key("", namespace)),
            claim=self.claims.store.get(Key(namespace, cache)),
            volume=self.volumes.store.get(Key("", volume_name(uid, namespace))),
        )

    def volumes_of(self, uid: str) -> list[Volume]:
        """The volumes of the cache with this UID."""
        return self.volumes.store.by_index("uid", uid)

    def claims_of(self, name: str, uid: str) -> list[Claim]:
        """The claims of the cache with this name and UID. A label alone makes none: anyone can write one."""
        labelled = self.claims.store.by_index("uid", uid)
        return [claim for claim in labelled if claim.metadata.name == name and is_ours(claim, uid)]

    def secret(self, uid: str) -> Secret | None:
        """The mirrored pull secret of the cache with this UID."""
        return self.secrets.store.get(Key(self._system, secret_name(uid)))

    def strangers(self, key: Key) -> set[str]:
        """UIDs that objects name as those of the cache at `key`, and that no cache in the stores has."""
        name, text = key.name, str(key)
        found = {grant.metadata.name or "" for grant in self.grants.store.by_index("cache", text)}
        found |= {cache_uid(volume) or "" for volume in self.volumes.store.by_index("cache", text)}
        found |= {
            cache_uid(claim) or ""
            for claim in self.claims.store.by_index("cache", name)
            if key.namespace in ("", claim.metadata.namespace)
        }
        return {uid for uid in found if uid and not self.is_live(uid)}


def volume_keys(volume: Volume) -> list[Key]:
    """The key of the cache that a volume of ours names."""
    source = volume.spec.csi
    key = attributed_key(source.volume_attributes or {}) if source else None
    return [key] if key else []


def report_keys(report: Report) -> list[Key]:
    """The keys of the caches that a node report names."""
    namespace = report.metadata.namespace or ""
    return [Key(namespace, name) for name in ((report.status.caches or {}) if report.status else {})]


def _reported(report: Report) -> list[str]:
    return [str(key) for key in report_keys(report)]


def _served(cache: Cache) -> list[str]:
    return list(workload_namespaces(cache) or ())


def _uid_value(obj: Claim | Volume) -> list[str]:
    uid = cache_uid(obj)
    return [uid] if uid else []
