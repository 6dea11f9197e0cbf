"""The reflector: keeps a store equal to what the API server has, through whatever happens in between.

It lists and watches one resource for ever (`progress` decides what it asks), applies what it hears to its
store, and tells its handlers of each change. What holds:

* The store is complete (`synced`) only when the server said that the initial events are over, or the last
  page came. What a complete list did not hold is removed then, and told as a deletion.
* An object with the same name and another UID is another object: the old one's deletion is told first.
* Only whole lines count. An object that does not fit the projection changes nothing: it is counted and
  logged, and the last state that could be read stays.
* No failure ends it. `problem` says what is wrong for as long as it lasts.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable
from typing import Generic, NoReturn, Protocol, TypeVar

import msgspec

from gkm.kube.client import Client, selectors
from gkm.kube.errors import (
    CredentialsError,
    ForbiddenError,
    IndexingError,
    KubeError,
    NotFoundError,
    ProtocolError,
    StreamingUnsupportedError,
    UnauthorizedError,
)
from gkm.kube.lists import PAGE, read_list
from gkm.kube.objects import Key, KubeObject, PartialObject, key_of
from gkm.kube.progress import Mode, Progress, Timing
from gkm.kube.resources import Resource
from gkm.kube.store import Change, Store
from gkm.kube.watch import Event, open_watch, read_bookmark, read_error

T = TypeVar("T", bound=KubeObject)

Handler = Callable[[Change[T]], None]
"""Told of each change in order, while nothing else runs: quick, and never waiting."""

_REFUSALS = (CredentialsError, UnauthorizedError, ForbiddenError, NotFoundError)

_log = logging.getLogger(__name__)


class ReflectorMetrics(Protocol):
    """What a reflector counts."""

    def requested(self, mode: str) -> None:
        """A list or watch began; `mode` is the `Mode`'s name."""

    def failed(self, reason: str) -> None:
        """A list or watch failed for `reason`."""

    def unreadable(self) -> None:
        """An object did not fit the projection."""

    def handler_failed(self) -> None:
        """A handler raised."""

    def healthy(self, healthy: bool) -> None:
        """The store is complete and being kept so, or not."""


class NoMetrics:
    """Counts nothing."""

    def requested(self, mode: str) -> None:
        """Ignore it."""

    def failed(self, reason: str) -> None:
        """Ignore it."""

    def unreadable(self) -> None:
        """Ignore it."""

    def handler_failed(self) -> None:
        """Ignore it."""

    def healthy(self, healthy: bool) -> None:
        """Ignore it."""


class Reflector(Generic[T]):
    """Mirrors the objects of `resource` in `namespace` (all if empty) that the selectors match into `store`.

    `streaming` begins with a streaming list: one request less for a few objects, where an ordinary list
    brings many in about half the time (ADR 20).
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        streaming: bool = False,
        timing: Timing | None = None,
        metrics: ReflectorMetrics | None = None,
    ) -> None:
        self.resource = resource
        self.store: Store[T] = Store()
        self.synced = asyncio.Event()
        """Set when the store was complete for the first time."""
        self.problem = ""
        """Why the store is not being kept up to date at present; empty while it is."""
        self.refused = False
        """Whether that is because of who we are or what we ask (no token, 401, 403, 404): it may last."""
        self._client = client
        self._namespace = namespace
        self._selectors = selectors(labels, fields)
        self._timing = timing or Timing()
        self._progress = Progress(self._timing, streaming=streaming)
        self._metrics = metrics or NoMetrics()
        self._handlers: list[Handler[T]] = []
        self._seen: set[Key] = set()

    def __str__(self) -> str:
        scope = [f"in {self._namespace}"] if self._namespace else []
        scope += [f"{value}" for value in self._selectors.values()]
        return " ".join([str(self.resource), *scope])

    def subscribe(self, handler: Handler[T]) -> None:
        """Tell `handler` of everything in the store as if it had just appeared, then of each change."""
        self._handlers.append(handler)
        for obj in self.store.objects():
            self._tell(handler, Change(None, obj))

    def unsubscribe(self, handler: Handler[T]) -> None:
        """Tell `handler` nothing more."""
        self._handlers.remove(handler)

    async def run(self) -> NoReturn:
        """Mirror until cancelled."""
        # Spreading load, not a secret.
        await asyncio.sleep(self._timing.start_jitter * random.random())  # noqa: S311
        while True:
            mode, began = self._progress.mode, time.monotonic()
            self._metrics.requested(mode.name)
            try:
                await (self._list() if mode is Mode.LIST else self._watch())
                wait = 0.0 if mode is Mode.LIST else self._progress.closed(time.monotonic() - began)
            except KubeError as error:
                wait = self._progress.failed(error)
                self._troubled(mode, error, wait)
            await asyncio.sleep(wait)

    async def _list(self) -> None:
        self._seen.clear()
        query = {**self._selectors, **self._progress.query()}
        limit = PAGE if self._progress.in_pages else 0
        version = ""
        listing = read_list(self._client.connection, self.resource, self._namespace, query, limit=limit)
        async with contextlib.aclosing(listing) as parts:
            async for part in parts:
                version = part.resource_version
                for item in part.items:
                    self._put(item)
        self._complete(version)

    async def _watch(self) -> None:
        self._seen.clear()
        query = {**self._selectors, **self._progress.query()}
        async with open_watch(
            self._client.connection,
            self.resource,
            self._namespace,
            query,
            read_timeout=self._timing.read_timeout,
        ) as batches:
            if self._progress.mode is Mode.WATCH:
                self._well()
            async for batch in batches:
                for event in batch:
                    self._apply(event)

    def _apply(self, event: Event) -> None:
        match event.type:
            case "ADDED" | "MODIFIED":
                self._progress.saw(self._put(event.object))
            case "DELETED":
                self._progress.saw(self._remove(event.object))
            case "BOOKMARK":
                version, complete = read_bookmark(event)
                if complete and self._progress.mode is not Mode.WATCH:
                    self._complete(version)
                elif self._progress.mode is Mode.STREAM:
                    raise StreamingUnsupportedError(f"{self}: initial events without an end")
                self._progress.saw(version)
            case "ERROR":
                raise read_error(event)
            case _:
                raise ProtocolError(f"a watch sent an event of unknown type {event.type!r}")

    def _complete(self, version: str) -> None:
        """Every object was seen: what was not is gone."""
        changes = self.store.keep_only(self._seen)
        self._seen.clear()
        self._progress.listed(version)
        self._tell_all(changes)
        self.synced.set()
        self._well()

    def _put(self, data: msgspec.Raw) -> str:
        """Take in an object's state; its resourceVersion."""
        try:
            obj = self.resource.decode(data)
            key = key_of(obj)
            changes = self.store.put(obj)
        except (ProtocolError, IndexingError) as error:
            return self._unreadable(data, error)
        self._note(key)
        self._tell_all(changes)
        return obj.metadata.resource_version or ""

    def _remove(self, data: msgspec.Raw) -> str:
        partial = _partial(data)
        self._seen.discard(key_of(partial))
        self._tell_all(self.store.remove(key_of(partial)))
        return partial.metadata.resource_version

    def _unreadable(self, data: msgspec.Raw, error: KubeError) -> str:
        partial = _partial(data)
        self._metrics.unreadable()
        _log.error("%s %s cannot be read and is left as it was: %s", self.resource, key_of(partial), error)
        self._note(key_of(partial))
        return partial.metadata.resource_version

    def _note(self, key: Key) -> None:
        """While a list is under way: `key` is in it."""
        if self._progress.mode is not Mode.WATCH:
            self._seen.add(key)

    def _tell_all(self, changes: list[Change[T]]) -> None:
        for change in changes:
            for handler in self._handlers:
                self._tell(handler, change)

    def _tell(self, handler: Handler[T], change: Change[T]) -> None:
        try:
            handler(change)
        # A handler's bug must cost neither the other handlers nor the watch.
        except Exception:  # noqa: BLE001
            self._metrics.handler_failed()
            _log.exception("a handler failed for %s %s", self.resource, change.key)

    def _well(self) -> None:
        if self.problem:
            _log.info("%s: in step with the API server again", self)
        self.problem, self.refused = "", False
        self._metrics.healthy(True)

    def _troubled(self, mode: Mode, error: KubeError, wait: float) -> None:
        self.problem = f"{error.reason}: {error}"
        self.refused = isinstance(error, _REFUSALS)
        self._metrics.failed(error.reason)
        self._metrics.healthy(False)
        # The first of a series may be a server that restarts; what lasts is worth a warning.
        level = logging.WARNING if self._progress.failures > 1 else logging.INFO
        _log.log(level, "%s: %s failed, next try in %.1f s: %s", self, mode.value, wait, error)


def _partial(data: msgspec.Raw) -> PartialObject:
    try:
        return msgspec.json.decode(data, type=PartialObject)
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"an event's object has no readable metadata: {error}") from error
