"""The order in which a cache goes: new mounts cold, last warm mount gone, claims, volumes, pull secret, grant,
finalizer. Pure.

The grant goes last of all objects, so as long as anything is left there is a grant that names the cache.

One pod may be late: kubelet was publishing its inline volume when the grant was withdrawn, and its node's report
comes after the others said that nothing is mounted. It keeps what it was given when that was right: a tree is not
collected while a pod has it, the report names the pod until it goes, and unpublishing needs no grant. A claim's
pods cannot be late: Kubernetes holds a claim until the last of them is gone.
"""

from enum import Enum

from gkm.api.grant import GKMGrant
from gkm.operator.grants import withdrawn


class Step(Enum):
    """What is to be done next; each is looked at again before the one after it."""

    WITHDRAW = "let nothing more be mounted"
    AWAIT_MOUNTS = "wait for the last warm mount to go"
    REMOVE_VOLUMES = "remove claims, then volumes"
    REMOVE_SECRET = "remove the mirrored pull secret"  # noqa: S105  a step's words, not a secret
    REMOVE_GRANT = "remove the grant"
    RELEASE = "remove the finalizer"


def next_step(grant: GKMGrant | None, *, in_use: bool, volumes: bool, secret: bool) -> Step:
    """The first step that is not done yet.

    `in_use`: some pod has the cache mounted warm. `volumes`, `secret`: some of them are there.
    """
    if grant is not None and grant.spec != withdrawn(grant).spec:
        return Step.WITHDRAW
    if in_use:
        return Step.AWAIT_MOUNTS
    if volumes:
        return Step.REMOVE_VOLUMES
    if secret:
        return Step.REMOVE_SECRET
    return Step.RELEASE if grant is None else Step.REMOVE_GRANT
