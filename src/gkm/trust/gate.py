"""The gate: what every digest passes before it is granted to nodes.

A cache is code, so nothing is granted that the gate does not allow. It judges a digest, never a tag, and is
asked again whenever a process starts: what it said is not stored where others could write it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from gkm.api.meta import ConditionStatus


@dataclass(frozen=True, slots=True)
class Candidate:
    """A digest that asks to be granted."""

    image: str
    """``HOST/REPO@sha256:DIGEST``."""
    namespace: str | None
    """The namespace of the cache that names it; None for a ClusterGKMCache."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the gate says of one candidate."""

    allowed: bool
    """Whether nodes may have it."""
    verified: ConditionStatus
    """The status of the cache's condition ``Verified``: Unknown where no policy judged."""
    reason: str
    """Why, as one stable CamelCase word."""
    message: str
    """Why, and what to do about it, for people."""
    policy_generation: int | None = None
    """The generation of the policy that decided; None where none did."""


class Gate(Protocol):
    """Judges digests. It may ask a registry, so it takes time and may fail."""

    async def judge(self, candidate: Candidate) -> Judgement:
        """Whether `candidate` may be granted.

        Raises:
            GKMError: it could not be found out now; ask again later.
        """


class Default(StrEnum):
    """What holds for images that no policy names (``gkm.trust.default`` in the ConfigMap gkm-config)."""

    WARN = "Warn"
    """They are granted, and their caches say that nothing verified them."""
    ENFORCE = "Enforce"
    """They are refused."""


class DefaultGate:
    """A gate without policies: every image gets the install-wide default."""

    def __init__(self, default: Default) -> None:
        self._default = default

    async def judge(self, candidate: Candidate) -> Judgement:
        """Allow or refuse by the default alone; never verified, at best Unknown."""
        if self._default is Default.WARN:
            return Judgement(
                allowed=True,
                verified=ConditionStatus.UNKNOWN,
                reason="NotConfigured",
                message="no trust policy is configured: the image was not verified (gkm.trust.default: Warn)",
            )
        return Judgement(
            allowed=False,
            verified=ConditionStatus.FALSE,
            reason="NoPolicy",
            message=(
                f"no trust policy allows {candidate.image}, and gkm.trust.default is Enforce: "
                "set it to Warn in the ConfigMap gkm-config to use images that nothing verified"
            ),
        )
