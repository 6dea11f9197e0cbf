"""Kubernetes' own pieces inside our resources: object metadata and conditions, as far as GKM reads them."""

from datetime import datetime
from typing import Annotated

import msgspec

from gkm.api.constraints import CAMEL_WORD, between, length, pattern
from gkm.api.wire import API_VERSION, OpenEnum, Wire


class OwnerReference(Wire, frozen=True, kw_only=True):
    """Whose object this is; Kubernetes' garbage collector deletes it with its owner."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Wire, frozen=True, kw_only=True):
    """The part of metav1.ObjectMeta that GKM reads or writes. The API server checks it, not our schema."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: tuple[str, ...] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None


class Object(Wire, frozen=True, kw_only=True):
    """What all kinds begin with. A kind gives `kind` its name, with a default factory like `api_version`'s:
    `omit_defaults` leaves out plain defaults, and the API server must always be told both.
    """

    api_version: str = msgspec.field(default_factory=lambda: API_VERSION)
    """The version of this representation: ``gkm.io/v1alpha1``."""
    kind: str
    """The kind of the object."""
    metadata: ObjectMeta
    """Standard metadata of a Kubernetes object."""


class ConditionStatus(OpenEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Wire, frozen=True, kw_only=True):
    """One aspect of a resource's state: metav1.Condition, with its limits."""

    type: Annotated[str, pattern("^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$", 316)]
    """The aspect: ``Ready``, ``Resolved``, ``Verified`` or ``Delivered``; for a PVC, its phase."""
    status: ConditionStatus
    """Whether the condition holds."""
    observed_generation: Annotated[int | None, between(0)] = None
    """The ``metadata.generation`` that the condition was computed from; older than the object's: outdated."""
    last_transition_time: datetime
    """When ``status`` last changed."""
    reason: Annotated[str, pattern(CAMEL_WORD, 1024)]
    """Why, as one stable CamelCase word for programs."""
    message: Annotated[str, length(32768)]
    """Why, and what to do about it, for people; may be empty."""
