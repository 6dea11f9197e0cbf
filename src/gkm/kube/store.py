"""The store: what a reflector has seen, by key and by index. Reading it costs no request.

Objects in it are shared and never changed: whoever wants another state sends it to the API server. The store
may lag behind the server by the time an event takes; a reconcile that acted on old state is run again when
the event arrives.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from gkm.base.errors import UsageError
from gkm.kube.errors import IndexingError
from gkm.kube.objects import Key, KubeObject, key_of

T = TypeVar("T", bound=KubeObject)

IndexFunction = Callable[[T], Iterable[str]]
"""The values under which an object is found in an index; pure, and fit for any object."""


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """`new` appeared (no `old`), took the place of `old`, or `old` went away (no `new`)."""

    old: T | None
    new: T | None

    @property
    def object(self) -> T:
        """The newest state there is: `new`, or the last known one of an object that went away."""
        found = self.new if self.new is not None else self.old
        assert found is not None
        return found

    @property
    def key(self) -> Key:
        """The object's key."""
        return key_of(self.object)


class Store(Generic[T]):
    """Objects of one resource by key, with reverse indexes that are kept up to date."""

    def __init__(self) -> None:
        self._objects: dict[Key, T] = {}
        self._functions: dict[str, IndexFunction[T]] = {}
        self._indexes: dict[str, dict[str, set[Key]]] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: Key) -> T | None:
        """The object at `key`, or None."""
        return self._objects.get(key)

    def keys(self) -> set[Key]:
        """The keys of all objects."""
        return set(self._objects)

    def objects(self) -> list[T]:
        """All objects, in no order."""
        return list(self._objects.values())

    def by_index(self, name: str, value: str) -> list[T]:
        """The objects for which index `name` gave `value`, in no order.

        Raises:
            UsageError: there is no such index.
        """
        if name not in self._indexes:
            raise UsageError(f"no index {name!r}; add it with add_index (there are: {sorted(self._indexes)})")
        return [self._objects[key] for key in self._indexes[name].get(value, ())]

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Keep an index called `name` from now on, over what is there already too.

        Raises:
            UsageError: the name is taken.
        """
        if name in self._functions:
            raise UsageError(f"the index {name!r} exists already")
        index: defaultdict[str, set[Key]] = defaultdict(set)
        for key, obj in self._objects.items():
            for value in function(obj):
                index[value].add(key)
        self._functions[name] = function
        self._indexes[name] = index

    def put(self, obj: T) -> list[Change[T]]:
        """Take in the state of an object that the server reported; the changes that this makes.

        None if it is known already (same UID and resourceVersion). Two if another object had the key (its UID
        differs): the old one went away without our seeing it, and the new one is not its continuation.

        Raises:
            IndexingError: an index function raised; nothing was changed.
        """
        key, old = key_of(obj), self._objects.get(key_of(obj))
        if old is not None and old.metadata.uid == obj.metadata.uid:
            if old.metadata.resource_version == obj.metadata.resource_version:
                return []
            self._replace(key, old, obj)
            return [Change(old, obj)]
        self._replace(key, old, obj)
        gone: list[Change[T]] = [] if old is None else [Change(old, None)]
        return [*gone, Change(None, obj)]

    def remove(self, key: Key) -> list[Change[T]]:
        """Take out the object at `key`; the change, if it was there."""
        old = self._objects.get(key)
        if old is None:
            return []
        self._replace(key, old, None)
        return [Change(old, None)]

    def keep_only(self, keys: Iterable[Key]) -> list[Change[T]]:
        """Take out all objects but those at `keys`: what a complete list did not hold no longer exists."""
        changes: list[Change[T]] = []
        for key in self._objects.keys() - set(keys):
            changes += self.remove(key)
        return changes

    def _replace(self, key: Key, old: T | None, new: T | None) -> None:
        # All index functions run before anything is changed.
        try:
            plan = [
                (
                    self._indexes[name],
                    set(function(old)) if old is not None else set(),
                    set(function(new)) if new is not None else set(),
                )
                for name, function in self._functions.items()
            ]
        except Exception as error:
            raise IndexingError(f"an index function failed for {key}: {error!r}") from error
        for index, before, after in plan:
            for value in before - after:
                index[value].discard(key)
                if not index[value]:
                    del index[value]
            for value in after - before:
                index[value].add(key)
        if new is None:
            del self._objects[key]
        else:
            self._objects[key] = new
