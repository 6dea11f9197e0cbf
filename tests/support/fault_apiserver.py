"""An API server that fails on purpose: it cuts, stalls, resets, loses history, refuses and lies.

For faults only: what a healthy API server does is tested against a real one. It keeps objects of any kind by
path, with resourceVersions, a history that can be compacted, optimistic locking, and merge patches. A fault
is taken from `plan` by each list or watch in turn, or drawn by `chance` when the plan is empty. `deaf` makes
it accept requests and never answer, `refuse_writes` answers them with a status, `tokens` are the only ones it
knows.
"""

import asyncio
import contextlib
import itertools
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import lightkube

from gkm.base.backoff import Backoff
from gkm.kube.client import Client
from gkm.kube.connection import Connection
from gkm.kube.fence import Fence
from gkm.kube.progress import Timing

_PATH = re.compile(
    r"/(?P<api>api/v1|apis/[^/]+/[^/]+)(/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[^/]+)(/(?P<name>[^/]+))?"
)
Json = dict[str, Any]

# The patience of a reflector in a test.
FAST = Timing(
    read_timeout=0.5,
    watch_shortest=1,
    watch_longest=2,
    hasty=0.01,
    backoff=Backoff(first=0.01, longest=0.05),
)


@dataclass(frozen=True)
class Fault:
    """`kind` strikes a request, a watch after `after` events (initial ones included).

    status: answer with HTTP `code` (`plain` without a Status, as a proxy does); gone: an ERROR event `code`;
    cut: end in the middle of a line, or of a list; close: end in order; reset: drop the connection; stall: go silent;
    garbage: a line that is no event; silent-end: end the initial events without saying so.
    """

    kind: str
    after: int = 0
    code: int = 410
    plain: bool = False


@dataclass(frozen=True)
class Asked:
    """One request as the server saw it."""

    method: str
    path: str
    query: dict[str, str]
    agent: str
    body: bytes = b""

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "true"

    @property
    def is_list(self) -> bool:
        return self.method == "GET" and not self.is_watch and self.path.rsplit("/", 1)[-1].endswith("s")


class FaultServer:
    """See the module. Plain HTTP on loopback; edit its objects through `put` and `remove`."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.version = 1
        self.oldest = 0
        self.history: list[tuple[int, str, str, Json]] = []
        self.plan: deque[Fault | None] = deque()
        self.chance: Callable[[Asked], Fault | None] = lambda _: None
        self.streams_lists = True
        self.page_size = 500
        self.deaf = False
        self.refuse_writes = 0
        self.tokens: set[str] = set()
        self.asked: list[Asked] = []
        self._snapshots: dict[int, list[Json]] = {}
        self._uids = itertools.count(1)
        self._news = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    # --- what tests do to it -------------------------------------------------------------------------------

    def put(self, name: str, namespace: str = "ns", plural: str = "configmaps", **fields: Any) -> Json:
        """Create the object, or change it."""
        old = self.objects.get((plural, namespace, name))
        metadata = {"name": name, "namespace": namespace, **fields.pop("metadata", {})}
        metadata["uid"] = old["metadata"]["uid"] if old else f"uid-{next(self._uids)}"
        return self._store("MODIFIED" if old else "ADDED", plural, {"metadata": metadata, **fields})

    def remove(self, name: str, namespace: str = "ns", plural: str = "configmaps") -> None:
        """Delete the object."""
        self._store("DELETED", plural, self.objects[(plural, namespace, name)])

    def compact(self) -> None:
        """Forget all history: a watch from any earlier version gets 410."""
        self.oldest = self.version
        self.history.clear()

    def truth(self, plural: str = "configmaps") -> dict[str, tuple[str, str]]:
        """UID and resourceVersion of what there is, by namespace/name."""
        return {
            f"{ns}/{name}": (obj["metadata"]["uid"], obj["metadata"]["resourceVersion"])
            for (kind, ns, name), obj in self.objects.items()
            if kind == plural
        }

    def connect(self, fence: Fence | None = None, *, attempts: int = 1, agent: str = "test") -> Client:
        """A client of this server."""
        config = lightkube.KubeConfig.from_server(f"http://127.0.0.1:{self.port}").get()
        assert config is not None
        return Client(
            Connection(config, user_agent=agent, fence=fence, attempts=attempts), field_manager=agent
        )

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator["FaultServer"]:
        """Listen, until the block is left."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            self._server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._server.wait_closed()

    # --- how it answers ------------------------------------------------------------------------------------

    def _store(self, kind: str, plural: str, obj: Json) -> Json:
        self.version += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        key = (plural, obj["metadata"]["namespace"], obj["metadata"]["name"])
        if kind == "DELETED":
            del self.objects[key]
        else:
            self.objects[key] = obj
        self.history.append((self.version, kind, plural, obj))
        news, self._news = self._news, asyncio.Event()
        news.set()
        return obj

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self._answer(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await writer.wait_closed()
        self._tasks.discard(task)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        url = urlsplit(target)
        asked = Asked(
            method, unquote(url.path), dict(parse_qsl(url.query)), headers.get("user-agent", ""), body
        )
        self.asked.append(asked)
        if self.deaf:
            await asyncio.Event().wait()
        if self.tokens and headers.get("authorization", "").removeprefix("Bearer ") not in self.tokens:
            return self._reply(writer, 401, _status(401))
        if self.refuse_writes and asked.method != "GET":
            return self._reply(writer, self.refuse_writes, _status(self.refuse_writes))
        fault = None
        if asked.is_watch or asked.is_list:
            fault = self.plan.popleft() if self.plan else self.chance(asked)
        if fault is not None and fault.kind == "status":
            self._reply(writer, fault.code, None if fault.plain else _status(fault.code))
        elif asked.is_watch:
            await self._watch(asked, writer, fault)
        elif fault is not None and fault.kind != "cut":
            # To a list every other fault is a lost connection.
            writer.transport.abort()
        else:
            self._reply(writer, *self._act(asked), cut=fault is not None)
        await writer.drain()
        return None

    @staticmethod
    def _reply(writer: asyncio.StreamWriter, code: int, body: Json | None, *, cut: bool = False) -> None:
        # Without spaces, as the API server writes.
        data = b"<html>sorry</html>" if body is None else json.dumps(body, separators=(",", ":")).encode()
        kind = b"" if body is None else b"content-type: application/json\r\n"
        writer.write(
            b"HTTP/1.1 %d x\r\n%sconnection: close\r\ncontent-length: %d\r\n\r\n" % (code, kind, len(data))
            + (data[: 2 * len(data) // 3] if cut else data)
        )

    def _act(self, asked: Asked) -> tuple[int, Json]:
        match = _PATH.fullmatch(asked.path)
        if match is None:
            return 404, _status(404)
        plural, namespace, name = match["plural"], match["namespace"] or "", match["name"] or ""
        body = json.loads(asked.body) if asked.body else {}
        if asked.method == "GET" and not name:
            return self._list(plural, asked.query)
        if asked.method == "POST":
            name = body["metadata"]["name"]
            if (plural, namespace, name) in self.objects:
                return 409, _status(409, "AlreadyExists")
            fields = {k: v for k, v in body.items() if k != "metadata"}
            return 201, self.put(name, namespace, plural, metadata=body["metadata"], **fields)
        old = self.objects.get((plural, namespace, name))
        if old is None:
            return 404, _status(404)
        if asked.method == "DELETE":
            self.remove(name, namespace, plural)
            return 200, _status(200)
        if asked.method == "PATCH":
            wanted = body.get("metadata", {}).get("resourceVersion")
            if wanted not in (None, old["metadata"]["resourceVersion"]):
                return 409, _status(409, "Conflict")
            return 200, self._store("MODIFIED", plural, _merge(old, body))
        return 200, old

    def _list(self, plural: str, query: dict[str, str]) -> tuple[int, Json]:
        taken, begin = self.version, 0
        if token := query.get("continue"):
            taken, begin = (int(part) for part in token.split("-"))
            if taken < self.oldest:
                return 410, _status(410)
        elif query.get("resourceVersion", "0") != "0" and int(query["resourceVersion"]) > self.version:
            return 504, _status(504, "Timeout", cause="ResourceVersionTooLarge")
        else:
            self._snapshots[taken] = sorted(
                self._matching(plural, query), key=lambda obj: obj["metadata"]["name"]
            )
        found = self._snapshots[taken]
        metadata = {"resourceVersion": str(taken)}
        page = min(self.page_size, int(query.get("limit", "0")) or len(found))
        if begin + page < len(found):
            metadata["continue"] = f"{taken}-{begin + page}"
        return 200, {"metadata": metadata, "items": found[begin : begin + page]}

    def _matching(self, plural: str, query: dict[str, str]) -> list[Json]:
        only = query.get("fieldSelector", "").removeprefix("metadata.name=")
        return [obj for (kind, _, name), obj in self.objects.items() if kind == plural and only in ("", name)]

    async def _watch(self, asked: Asked, writer: asyncio.StreamWriter, fault: Fault | None) -> None:
        query, plural = asked.query, asked.path.rsplit("/", 1)[-1]
        initial = query.get("sendInitialEvents") == "true"
        if initial and not self.streams_lists:
            return self._reply(writer, 422, _status(422, "Invalid"))
        since = int(query.get("resourceVersion", "0"))
        if since > self.version:
            return self._reply(writer, 504, _status(504, "Timeout", cause="ResourceVersionTooLarge"))
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        try:
            async with asyncio.timeout(float(query["timeoutSeconds"])):
                async for line in self._lines(plural, query, since, initial, fault):
                    writer.write(b"%x\r\n%s\r\n" % (len(line), line))
                    await writer.drain()
        except TimeoutError:
            pass
        except ConnectionAbortedError:
            writer.transport.abort()
            return None
        writer.write(b"0\r\n\r\n")
        return None

    async def _lines(
        self, plural: str, query: dict[str, str], since: int, initial: bool, fault: Fault | None
    ) -> AsyncIterator[bytes]:
        sent = 0
        async for event in self._events(plural, query, since, initial, fault):
            if fault is not None and sent >= fault.after:
                match fault.kind:
                    case "close":
                        return
                    case "gone":
                        yield _line({"type": "ERROR", "object": _status(fault.code)})
                        return
                    case "cut":
                        yield _line(event)[: len(_line(event)) // 2]
                        return
                    case "reset":
                        raise ConnectionAbortedError
                    case "stall":
                        await asyncio.Event().wait()
                    case "garbage":
                        yield b'{"type": 7}\n'
            sent += 1
            yield _line(event)

    async def _events(
        self, plural: str, query: dict[str, str], since: int, initial: bool, fault: Fault | None
    ) -> AsyncIterator[Json]:
        if initial:
            since = self.version
            for obj in self._matching(plural, query):
                yield {"type": "ADDED", "object": obj}
            if not (fault is not None and fault.kind == "silent-end"):
                yield _bookmark(since, end=True)
        while True:
            if since < self.oldest:
                yield {"type": "ERROR", "object": _status(410)}
                return
            news = [entry for entry in self.history if entry[0] > since]
            # Fixed before anything is sent: sending takes time, in which more may happen.
            since = self.version
            for _, kind, of, obj in news:
                if of == plural:
                    yield {"type": kind, "object": obj}
            yield _bookmark(since)
            while self.version == since:
                await self._news.wait()


def _line(event: Json) -> bytes:
    return json.dumps(event).encode() + b"\n"


def _bookmark(version: int, *, end: bool = False) -> Json:
    # A real bookmark's object fits no model: `spec.containers` is null in a Pod's.
    metadata: Json = {"resourceVersion": str(version), "creationTimestamp": None}
    if end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"type": "BOOKMARK", "object": {"metadata": metadata, "data": None, "spec": {"containers": None}}}


def _status(code: int, reason: str = "", cause: str = "") -> Json:
    details = {"causes": [{"reason": cause}]} if cause else {}
    return {
        "kind": "Status",
        "code": code,
        "reason": reason,
        "message": f"planned {code}",
        "details": details,
    }


def _merge(old: Json, patch: Json) -> Json:
    """RFC 7386."""
    merged = dict(old)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            below = merged.get(key)
            merged[key] = _merge(below if isinstance(below, dict) else {}, value)
        else:
            merged[key] = value
    return merged
