"""The gate without policies: the install-wide default, and never a claim that something was verified."""

import pytest

from gkm.api.meta import ConditionStatus
from gkm.trust.gate import Candidate, Default, DefaultGate

CANDIDATE = Candidate(f"registry.test/kernels@sha256:{'a' * 64}", "team")


@pytest.mark.parametrize(
    ("default", "allowed", "verified", "reason"),
    [
        (Default.WARN, True, ConditionStatus.UNKNOWN, "NotConfigured"),
        (Default.ENFORCE, False, ConditionStatus.FALSE, "NoPolicy"),
    ],
)
async def test_the_default_decides(
    default: Default, allowed: bool, verified: ConditionStatus, reason: str
) -> None:
    judgement = await DefaultGate(default).judge(CANDIDATE)
    assert (judgement.allowed, judgement.verified, judgement.reason) == (allowed, verified, reason)
    assert "gkm.trust.default" in judgement.message
