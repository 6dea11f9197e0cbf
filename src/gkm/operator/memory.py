"""What the operator remembers of a cache between reconciles. All of it may be lost with the process."""

from dataclasses import dataclass

_NEVER = float("-inf")


@dataclass(slots=True)
class Memory:
    """Of one cache. Moments are on the operator's monotonic clock."""

    uid: str
    counted: float = _NEVER
    """When counts were written last."""
    credentials: bytes | None = None
    """What its pull secrets held for its registry when they last did, as a ``.dockerconfigjson``."""
    credentials_host: str | None = None
    """The registry that those are for; the image that serves may be in another."""
    secrets_read: float = _NEVER
    """When they were read last."""
    digest: str | None = None
    """The digest that nodes are to have."""
    digest_since: float = _NEVER
    """Since when; never, if an earlier process granted it."""

    def saw(self, digest: str | None, granted_before: str | None, now: float) -> None:
        """Take note of what nodes are to have; `granted_before` is what the grant said until now."""
        if digest == self.digest:
            return
        self.digest, self.digest_since = digest, (_NEVER if digest == granted_before else now)
