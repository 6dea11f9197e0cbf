"""A resource: where objects of one kind live in the API, and the projection they are read into.

A resource is a value. The same kind read through another projection is another resource, with a watch and a
store of its own, so share them where the projection allows.
"""

from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import msgspec

from gkm.base.errors import UsageError
from gkm.kube.errors import ProtocolError
from gkm.kube.objects import ConfigMap, KubeObject, Lease, Node, PartialObject, Pod

T = TypeVar("T", bound=KubeObject)
U = TypeVar("U", bound=KubeObject)

# The server converts to metadata alone, so the rest is not even sent
# (Kubernetes API concepts, "Fetching resources as metadata").
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_ONLY_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@dataclass(frozen=True)
class Resource(Generic[T]):
    """`model` objects of `kind`, served under `group`/`version` as `plural`; the core group is the empty
    text."""

    model: type[T]
    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    accept: str = "application/json"
    accept_list: str = "application/json"
    _decoder: "msgspec.json.Decoder[T]" = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        # Built once: a decoder for a struct type is compiled at construction.
        object.__setattr__(self, "_decoder", msgspec.json.Decoder(self.model))

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        """`apiVersion` of its objects: ``group/version``, or just the version in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def read_as(self, model: type[U]) -> "Resource[U]":
        """The same kind, read through another projection."""
        return Resource(model, self.group, self.version, self.kind, self.plural, self.namespaced)

    def metadata_only(self) -> "Resource[PartialObject]":
        """The same kind, of which the server sends only the metadata."""
        return replace(self.read_as(PartialObject), accept=_METADATA_ONLY, accept_list=_METADATA_ONLY_LIST)

    def path(self, name: str = "", namespace: str = "", subresource: str = "") -> str:
        """The request path of the collection, or of one object or its subresource where `name` is given.

        Raises:
            UsageError: a namespace for a cluster-scoped kind, or one object of a namespaced kind without.
        """
        if namespace and not self.namespaced:
            raise UsageError(f"{self} is cluster-scoped: leave the namespace {namespace!r} out")
        if name and self.namespaced and not namespace:
            raise UsageError(f"{self} is namespaced: give the namespace of {name!r}")
        if "/" in name or "/" in namespace:
            raise UsageError(f"{namespace!r}, {name!r}: a name or namespace never holds a slash")
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        parts += ["namespaces", namespace] if namespace else []
        parts += [self.plural, name, subresource]
        return "/" + "/".join(part for part in parts if part)

    def decode(self, data: bytes | msgspec.Raw) -> T:
        """One object from its JSON.

        Raises:
            ProtocolError: it does not fit the projection; the message names the field.
        """
        try:
            return self._decoder.decode(data)
        except msgspec.MsgspecError as error:
            raise ProtocolError(f"a {self.kind} does not fit {self.model.__name__}: {error}") from error


PODS = Resource(Pod, "", "v1", "Pod", "pods")
NODES = Resource(Node, "", "v1", "Node", "nodes", namespaced=False)
CONFIG_MAPS = Resource(ConfigMap, "", "v1", "ConfigMap", "configmaps")
LEASES = Resource(Lease, "coordination.k8s.io", "v1", "Lease", "leases")
