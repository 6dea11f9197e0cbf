"""Projections: structs that hold only the fields that are read, so that 10 000 Pods fit in a few MiB.

A projection is decoded straight from the bytes of a watch event; whatever it does not name is skipped, not
stored. So an object read through one must never be sent back whole (`replace`): patch or apply instead.
Structs are shared between the store and all who read it, hence frozen. A controller that needs other fields
defines its own projection; these are the ones that many need. JSON names are Kubernetes' own
(Kubernetes API reference, v1.36).
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from gkm.kube.errors import ProtocolError


class Key(NamedTuple):
    """An object's name within its kind; `namespace` is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Meta(Protocol):
    """What this room reads of any object's metadata (attribute names as msgspec's ``rename="camel"``
    gives)."""

    @property
    def name(self) -> str | None: ...
    @property
    def namespace(self) -> str | None: ...
    @property
    def uid(self) -> str | None: ...
    @property
    def resource_version(self) -> str | None: ...


class KubeObject(Protocol):
    """Any projection: a struct with `metadata`."""

    @property
    def metadata(self) -> Meta: ...


class Owner(Protocol):
    """What is read of an owner reference."""

    @property
    def api_version(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def controller(self) -> bool | None: ...


class OwnedMeta(Meta, Protocol):
    """Metadata of a projection that names its owners."""

    @property
    def owner_references(self) -> Sequence[Owner] | None: ...


class OwnedObject(Protocol):
    """A projection whose owners can be mapped to keys."""

    @property
    def metadata(self) -> OwnedMeta: ...


def key_of(obj: KubeObject) -> Key:
    """The key of `obj`.

    Raises:
        ProtocolError: it has no name, which no object that an API server returns lacks.
    """
    if not obj.metadata.name:
        raise ProtocolError("an object without metadata.name came from the API server")
    return Key(obj.metadata.namespace or "", obj.metadata.name)


class Slim(msgspec.Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=True):
    """Base of the projections: camelCase on the wire, unset fields left out when encoded."""


class OwnerReference(Slim, frozen=True):
    """`metadata.ownerReferences[]`: `controller` marks the one owner that manages the object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Slim, frozen=True):
    """Metadata without annotations and managedFields, the two that are large; subclass it to read the
    former."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    deletion_timestamp: str | None = None


class PartialObject(Slim, frozen=True):
    """Any object, metadata only (controller-runtime's PartialObjectMetadata)."""

    metadata: ObjectMeta = ObjectMeta()


class PodSpec(Slim, frozen=True):
    """Where the Pod runs."""

    node_name: str = ""


class PodStatus(Slim, frozen=True):
    """How far the Pod is."""

    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")


class Pod(Slim, frozen=True):
    """`v1` Pod: enough to know where it runs and whether it still does."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Condition(Slim, frozen=True):
    """A condition as `type`, `status` and `reason`."""

    type: str = ""
    status: str = ""
    reason: str = ""


class NodeSpec(Slim, frozen=True):
    """Whether the Node takes Pods."""

    unschedulable: bool = False


class NodeStatus(Slim, frozen=True):
    """The Node's conditions, `Ready` among them."""

    conditions: tuple[Condition, ...] = ()


class Node(Slim, frozen=True):
    """`v1` Node: labels, schedulability and conditions."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ConfigMap(Slim, frozen=True):
    """`v1` ConfigMap with its text data."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None


class LeaseSpec(Slim, frozen=True):
    """`coordination.k8s.io/v1` LeaseSpec; times are RFC 3339 with microseconds (MicroTime)."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Slim, frozen=True):
    """`coordination.k8s.io/v1` Lease: who leads, and since when it was last heard of."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
