"""The client: read, create, apply, patch and delete objects, each call one request.

Reads of what a controller watches belong to its store, not here. Objects come back as the resource's
projection, so writing is always `create`, `apply` or `patch`, never a replace of what was read.
"""

from collections.abc import Mapping
from contextlib import aclosing
from enum import StrEnum
from typing import Any, Self, TypeVar

import msgspec

from gkm.base.errors import UsageError
from gkm.kube.connection import Connection
from gkm.kube.lists import read_list
from gkm.kube.objects import KubeObject
from gkm.kube.resources import Resource

T = TypeVar("T", bound=KubeObject)
Body = msgspec.Struct | Mapping[str, Any]
"""What is sent: a struct, or the JSON object as a mapping."""


class Patch(StrEnum):
    """How a patch's body is read (Kubernetes API concepts, "Patch"), as its content type."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Client:
    """Requests on `connection`; `field_manager` names us as the owner of the fields we apply.

    Every method raises the `ApiError` subclass of the server's answer, `UnreachableError` without one,
    `ProtocolError` for an answer that does not fit the projection, and `NotLeaderError` for a mutating
    request behind a closed fence.
    """

    def __init__(self, connection: Connection, *, field_manager: str) -> None:
        self.connection = connection
        self._field_manager = field_manager

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """Read one object from the server."""
        answer = await self.connection.send("GET", resource.path(name, namespace), accept=resource.accept)
        return resource.decode(answer)

    async def list_all(
        self, resource: Resource[T], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> list[T]:
        """Read all objects in `namespace` (all namespaces if empty) that the selectors match, page by page.

        Costs the server a read from etcd: for tests and tools, never for a loop.
        """
        query = selectors(labels, fields)
        found: list[T] = []
        async with aclosing(read_list(self.connection, resource, namespace, query)) as parts:
            async for part in parts:
                found += [resource.decode(item) for item in part.items]
        return found

    async def create(self, resource: Resource[T], obj: Body) -> T:
        """Create `obj`. Raises `AlreadyExistsError` if its name is taken."""
        body, _, namespace = _prepare(resource, obj, need_name=False)
        return await self._write("POST", resource, resource.path(namespace=namespace), body)

    async def apply(self, resource: Resource[T], obj: Body, *, force: bool = True) -> T:
        """Server-side apply: create the object, or make the fields that `obj` names ours and as it says.

        A field that we applied before and `obj` no longer names is removed. With `force`, fields of other
        managers are taken over; without, they make it a `ConflictError`.
        """
        body, name, namespace = _prepare(resource, obj)
        return await self._apply(resource, resource.path(name, namespace), body, force)

    async def apply_status(self, resource: Resource[T], obj: Body, *, force: bool = True) -> T:
        """Apply `obj` to the status subresource. It must carry the resourceVersion that it was decided upon.

        So a status computed from an old object, or by a leader that was, is refused with `ConflictError`
        instead of overwriting a newer one (apply alone has no such check).
        """
        body, name, namespace = _prepare(resource, obj)
        if not body["metadata"].get("resourceVersion"):
            raise UsageError(f"status of {resource} {name}: metadata.resourceVersion must be set")
        return await self._apply(resource, resource.path(name, namespace, "status"), body, force)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        body: Body | list[Any],
        namespace: str = "",
        *,
        strategy: Patch = Patch.MERGE,
        subresource: str = "",
    ) -> T:
        """Change an object as `body` says, read as `strategy`. Raises `NotFoundError` if it is not there.

        With `metadata.resourceVersion` in a merge patch the server refuses it (`ConflictError`) if the object
        changed since. A patch of a status must carry it.
        """
        plain = msgspec.to_builtins(body)
        if subresource == "status" and not (
            isinstance(plain, dict) and plain.get("metadata", {}).get("resourceVersion")
        ):
            raise UsageError(f"status of {resource} {name}: metadata.resourceVersion must be in the patch")
        path = resource.path(name, namespace, subresource)
        return await self._write("PATCH", resource, path, plain, content_type=strategy)

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "Background",
    ) -> None:
        """Delete an object; it is gone at once, or when its finalizers are.

        `uid` and `resource_version` are preconditions: another object of the same name is left alone
        (`ConflictError`). Raises `NotFoundError` if there is none.
        """
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options: dict[str, Any] = {"propagationPolicy": propagation}
        if given := {key: value for key, value in preconditions.items() if value}:
            options["preconditions"] = given
        path = resource.path(name, namespace)
        await self.connection.send("DELETE", path, body=msgspec.json.encode(options))

    async def _apply(self, resource: Resource[T], path: str, body: dict[str, Any], force: bool) -> T:
        query = {"force": "true"} if force else {}
        return await self._write("PATCH", resource, path, body, content_type=Patch.APPLY, query=query)

    async def _write(
        self,
        method: str,
        resource: Resource[T],
        path: str,
        body: object,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> T:
        answer = await self.connection.send(
            method,
            path,
            query={"fieldManager": self._field_manager, **(query or {})},
            body=msgspec.json.encode(body),
            content_type=content_type,
            accept=resource.accept,
        )
        return resource.decode(answer)

    async def aclose(self) -> None:
        """Close the connection."""
        await self.connection.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def selectors(labels: str, fields: str) -> dict[str, str]:
    """Query parameters for a label and a field selector, both in the server's own syntax; empty ones left
    out."""
    given = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in given.items() if value}


def _prepare(
    resource: Resource[Any], obj: Body, *, need_name: bool = True
) -> tuple[dict[str, Any], str, str]:
    """`obj` as a JSON object with apiVersion and kind, its name and its namespace."""
    plain: dict[str, Any] = msgspec.to_builtins(obj)
    metadata = plain.get("metadata") or {}
    name, namespace = metadata.get("name") or "", metadata.get("namespace") or ""
    if need_name and not name:
        raise UsageError(f"{resource}: metadata.name must be set")
    if resource.namespaced and not namespace:
        raise UsageError(f"{resource} {name}: metadata.namespace must be set")
    body = {**plain, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    return body, name, namespace
