"""The verdict on this node, from a grant alone, before anything is downloaded. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from gkm.api.grant import GKMGrant
from gkm.api.node import GPUVerdict
from gkm.api.values import Verdict
from gkm.caches import verdict as judging
from gkm.caches.model import Target
from gkm.gpus.model import GPU


@dataclass(frozen=True, slots=True)
class Fitness:
    """Whether a cache belongs on this node."""

    fits: bool
    """Only a known no, or the lack of any GPU, keeps a cache away."""
    reason: str
    """What decided, a stable word: ``Match``, ``ArchMismatch``, ``NoGPU``, ``NotChecked``, …"""
    message: str
    gpus: tuple[GPUVerdict, ...]
    """One verdict per GPU; empty where there are none, or the check is off."""


NOT_CHECKED = Fitness(
    fits=True, reason="NotChecked", message="NO_GPU=true: not checked against GPUs", gpus=()
)


@dataclass(frozen=True, slots=True)
class Hardware:
    """What verdicts are made against. `unchecked` is upstream's ``NO_GPU=true``: everything fits."""

    gpus: tuple[GPU, ...]
    unchecked: bool = False

    def judge(self, grant: GKMGrant) -> Fitness:
        """The verdict on the grant's first digest; one fitting target on one GPU is enough."""
        if self.unchecked:
            return NOT_CHECKED
        targets = [
            Target(backend=t.backend, arch=t.arch, warp_size=t.warp_size, product=t.product)
            for t in grant.spec.targets or ()
        ]
        verdicts = judging.judge(targets, self.gpus)
        decisive = judging.overall(verdicts)
        fits = bool(self.gpus) and decisive.verdict is not judging.Verdict.INCOMPATIBLE
        return Fitness(fits, decisive.reason.value, decisive.factor, _per_gpu(self.gpus, verdicts))


def _per_gpu(gpus: Sequence[GPU], verdicts: Sequence[judging.GPUVerdict]) -> tuple[GPUVerdict, ...]:
    return tuple(
        GPUVerdict(
            id=gpu.index,
            verdict=Verdict(found.verdict.value),
            reason=None if found.verdict is judging.Verdict.COMPATIBLE else found.reason.value,
        )
        for gpu, found in zip(gpus, verdicts, strict=False)
    )
