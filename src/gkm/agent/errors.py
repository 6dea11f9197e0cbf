"""What can go wrong between the agent and a digest it is to stage."""

from gkm.base.errors import GKMError


class AgentError(GKMError):
    """The agent could not do its part on this node."""

    reason = "AgentFailed"


class DiskBudgetError(AgentError):
    """Staging would leave less of the disk free than the node must keep. Tried again later."""

    reason = "DiskBudget"


class PullSecretError(AgentError):
    """The mirrored pull secret is missing or is none. Tried again later."""

    reason = "PullSecretUnusable"


class ExtractionCrashedError(AgentError):
    """gkm-extract ended, or fell silent, without saying how staging went."""

    reason = "ExtractionCrashed"


class TreeRefusedError(AgentError):
    """What gkm-extract left is not a sealed tree of the digest it was asked for."""

    reason = "TreeRefused"


class ConfinementError(AgentError):
    """gkm-extract holds privileges that it must not have when it meets foreign bytes."""

    reason = "NotConfined"


class ExtractionFailedError(AgentError):
    """gkm-extract said why staging failed; `reason` is that error's own."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        # Shadows the class's word: conditions show the first cause, which happened in another process.
        self.reason: str = reason  # type: ignore[misc]  # an instance's word in place of the class's
