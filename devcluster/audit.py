"""The API server's audit log: what is written, and how to read it.

Format: https://kubernetes.io/docs/reference/config-api/apiserver-audit.v1/
"""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})

# One line per request, when it is answered (for a watch: when it is opened and when it ends). The bodies of
# leases and of GKM's own objects are kept: only there one sees whether a write named a resourceVersion.
POLICY: dict[str, object] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Request",
            "verbs": ["create", "update", "patch"],
            "resources": [{"group": "coordination.k8s.io"}, {"group": "gkm.io"}],
        },
        {"level": "Metadata"},
    ],
}


class User(msgspec.Struct, frozen=True):
    """Who asked, as the API server authenticated them."""

    username: str = ""
    groups: list[str] = []


class ObjectRef(msgspec.Struct, frozen=True, rename="camel"):
    """What a request was about."""

    api_group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    resource_version: str = ""


class Answer(msgspec.Struct, frozen=True):
    """How it ended: an HTTP status."""

    code: int = 0
    reason: str = ""


class Event(msgspec.Struct, frozen=True, rename="camel"):
    """One line of the log."""

    audit_id: str = msgspec.field(name="auditID")
    stage: str
    verb: str
    request_uri: str = msgspec.field(name="requestURI")
    user: User
    user_agent: str = ""
    object_ref: ObjectRef | None = None
    response_status: Answer = Answer()
    request_object: Any = None
    request_received_timestamp: str = ""
    stage_timestamp: str = ""

    @property
    def write(self) -> bool:
        """Whether the request changes something where it succeeds."""
        return self.verb in _WRITES


_DECODER = msgspec.json.Decoder(Event)


def read(path: Path, *, offset: int = 0) -> list[Event]:
    """All events whose line begins at byte `offset` of the log or later, and is complete."""
    with path.open("rb") as file:
        file.seek(offset)
        lines = file.read().split(b"\n")[:-1]
    return [_DECODER.decode(line) for line in lines if line]


def writes_by_user(events: list[Event]) -> Counter[str]:
    """How many writes each user asked for, whether they were allowed or not."""
    return Counter(e.user.username for e in events if e.write and e.stage == "ResponseComplete")
