"""From a change to the keys that are worked on because of it, and predicates: which changes count at all.

controller-runtime calls the first `handler` (EnqueueRequestForObject, …ForOwner, …MapFunc). All of them are
pure functions of the change.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from gkm.kube.objects import Key, KubeObject, OwnedObject
from gkm.kube.resources import Resource
from gkm.kube.store import Change

T = TypeVar("T", bound=KubeObject)

Mapping = Callable[[Change[T]], Iterable[Key]]
Predicate = Callable[[Change[T]], bool]


def itself(change: Change[Any]) -> list[Key]:
    """The changed object's own key."""
    return [change.key]


def owner(resource: Resource[Any], *, controller_only: bool = True) -> Mapping[Any]:
    """The keys of the owners of kind `resource` that the object names, before and after the change.

    With `controller_only`, just the owner that manages it. A namespaced owner is in the object's namespace
    (API concepts, "Owners and dependents").
    """

    def keys(change: Change[OwnedObject]) -> set[Key]:
        found = set()
        for obj in (change.old, change.new):
            for reference in (obj.metadata.owner_references if obj else None) or ():
                # Any version of the group may be named: the owner is the same object.
                group = reference.api_version.rpartition("/")[0]
                if (group, reference.kind) != (resource.group, resource.kind):
                    continue
                if controller_only and not reference.controller:
                    continue
                assert obj is not None
                namespace = (obj.metadata.namespace or "") if resource.namespaced else ""
                found.add(Key(namespace, reference.name))
        return found

    return keys


def mapped(function: Callable[[T], Iterable[Key]]) -> Mapping[T]:
    """What `function` gives for the object as it was and as it is: both may concern someone."""

    def keys(change: Change[T]) -> set[Key]:
        found: set[Key] = set()
        for obj in (change.old, change.new):
            if obj is not None:
                found.update(function(obj))
        return found

    return keys


class _GenerationMeta(Protocol):
    @property
    def generation(self) -> int | None: ...


class _Versioned(Protocol):
    @property
    def metadata(self) -> _GenerationMeta: ...


def generation_changed(change: Change[Any]) -> bool:
    """Appeared, went away, or its spec changed; not: metadata or status alone.

    Only for kinds with a generation (custom resources with a status subresource, workloads); not for Pods'
    status or ConfigMaps.
    """
    old: _Versioned | None = change.old
    new: _Versioned | None = change.new
    return old is None or new is None or old.metadata.generation != new.metadata.generation


def field_changed(read: Callable[[T], object]) -> Predicate[T]:
    """Appeared, went away, or what `read` gives of it changed."""

    def changed(change: Change[T]) -> bool:
        return change.old is None or change.new is None or read(change.old) != read(change.new)

    return changed


def any_of(*predicates: Predicate[T]) -> Predicate[T]:
    """Whether one of `predicates` lets the change through."""

    def passes(change: Change[T]) -> bool:
        return any(predicate(change) for predicate in predicates)

    return passes
