"""The controller of both kinds of cache: which change of which object concerns which cache."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry

from gkm.api.values import CacheKind
from gkm.kube.controller import Controller
from gkm.kube.manager import Manager
from gkm.kube.mapping import field_changed, itself, mapped
from gkm.kube.objects import Key, PartialObject, key_of
from gkm.operator.counting import readiness
from gkm.operator.grants import node_selector
from gkm.operator.metrics import OperatorMetrics
from gkm.operator.objects import Claim, Node, Secret
from gkm.operator.reconciler import Announcer, CacheReconciler
from gkm.operator.resolver import Resolver
from gkm.operator.scope import granted_key
from gkm.operator.settings import Settings
from gkm.operator.world import World, cache_uid, report_keys, volume_keys
from gkm.trust.gate import Gate


def add_operator(
    manager: Manager, gate: Gate, announcer: Announcer, settings: Settings, *, registry: CollectorRegistry
) -> Controller:
    """Have `manager` run the operator: its controller ``cache``, and the resolver beside it.

    `gate` judges every digest; Events are told to `announcer` (the manager's `EventRecorder`); what is measured
    is registered in `registry`.
    """
    world = World(manager, settings)
    metrics = OperatorMetrics(registry, world.all_caches)
    resolver = Resolver(gate, settings, measured=metrics.resolved)

    def wake(key: Key) -> None:
        controller.queue.add(key)

    reconciler = CacheReconciler(manager.client, world, resolver, announcer, settings, wake)
    controller = manager.controller("cache", reconciler.reconcile, workers=settings.workers)
    manager.add_service("resolver", resolver.run)
    for kind in CacheKind:
        controller.watches(world.caches[kind], itself)
        controller.watches(world.reports[kind], mapped(report_keys))
    controller.watches(world.grants, mapped(lambda grant: [granted_key(grant.spec.cache)]))
    controller.watches(world.volumes, mapped(volume_keys))
    controller.watches(world.claims, mapped(_of_claim(world)))
    controller.watches(world.secrets, mapped(_of_secret(world)))
    controller.watches(
        world.namespaces,
        mapped(_of_namespace(world)),
        predicates=(field_changed(lambda namespace: namespace.metadata.deletion_timestamp),),
    )
    controller.watches(
        world.nodes,
        mapped(_of_node(world)),
        predicates=(field_changed(lambda node: (readiness(node), node.metadata.labels)),),
    )
    return controller


def _of_claim(world: World) -> Callable[[Claim], Iterable[Key]]:
    """The caches that a claim is named after; of other claims nobody needs to know."""

    def keys(claim: Claim) -> list[Key]:
        named = [key_of(claim), Key("", claim.metadata.name)]
        return named if cache_uid(claim) else [key for key in named if world.cache(key) is not None]

    return keys


def _of_secret(world: World) -> Callable[[Secret], Iterable[Key]]:
    """The cache that a mirrored pull secret is for."""

    def keys(secret: Secret) -> list[Key]:
        grant = world.grant(cache_uid(secret) or "")
        return [granted_key(grant.spec.cache)] if grant else []

    return keys


def _of_namespace(world: World) -> Callable[[PartialObject], Iterable[Key]]:
    """The caches whose pods may be in a namespace."""

    def keys(namespace: PartialObject) -> list[Key]:
        stores = [reflector.store for reflector in world.caches.values()]
        name = namespace.metadata.name
        return [key_of(cache) for store in stores for cache in store.by_index("namespace", name)]

    return keys


def _of_node(world: World) -> Callable[[Node], Iterable[Key]]:
    """The caches that a node reports, and those that choose nodes by label: it may be their first."""

    def keys(node: Node) -> list[Key]:
        stores = [reflector.store for reflector in world.reports.values()]
        name = node.metadata.name
        found = [
            key for store in stores for report in store.by_index("node", name) for key in report_keys(report)
        ]
        caches = [cache for reflector in world.caches.values() for cache in reflector.store.objects()]
        return found + [key_of(cache) for cache in caches if node_selector(cache.spec)]

    return keys
