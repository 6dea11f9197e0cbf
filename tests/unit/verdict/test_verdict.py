"""Which caches fit which GPUs, and the words that say why."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gkm.caches.model import Target
from gkm.caches.verdict import Reason, Verdict, judge, overall
from gkm.gpus.model import GPU


def cuda(arch: str = "sm_90", product: str = "NVIDIA H100 80GB HBM3", index: int = 0) -> GPU:
    return GPU(index, f"GPU-{index}", "nvidia", "cuda", product, arch, 32)


def hip(arch: str = "gfx942", warp_size: int = 64) -> GPU:
    return GPU(0, "amd-0", "amd", "hip", "AMD Instinct MI300X", arch, warp_size)


SM_90 = Target("cuda", "sm_90", 32)
GFX942 = Target("hip", "gfx942", 64)
HOST = Target("cpu", "x86_64", 0)


@pytest.mark.parametrize(
    ("targets", "gpu", "verdict", "reason", "factor"),
    [
        ([SM_90], cuda(), "Compatible", "Match", "arch sm_90, warp size 32"),
        ([GFX942], hip(), "Compatible", "Match", "arch gfx942, warp size 64"),
        ([Target("cuda", "sm_90a", 32)], cuda(), "Compatible", "Match", "arch sm_90, warp size 32"),
        ([Target("hip", "gfx942:sramecc+:xnack-", 64)], hip(), "Compatible", "Match", None),
        ([GFX942, SM_90], cuda(), "Compatible", "Match", None),
        ([HOST, SM_90], cuda(), "Compatible", "Match", None),
        ([Target("cuda", "sm_90", 0)], cuda(), "Compatible", "Match", None),
        (
            [GFX942],
            cuda(),
            "Incompatible",
            "BackendMismatch",
            "backend hip gfx942 (cache) ≠ cuda sm_90 (GPU)",
        ),
        (
            [Target("cuda", "sm_100", 32), Target("cuda", "sm_75", 32), GFX942],
            cuda(),
            "Incompatible",
            "ArchMismatch",
            "arch sm_100, sm_75 (cache) ≠ sm_90 (GPU)",
        ),
        (
            [Target("cuda", "sm_80", 32)],
            cuda("sm_86"),
            "Incompatible",
            "ArchMismatch",
            "arch sm_80 (cache) ≠ sm_86 (GPU); sm_80 code runs there, but the compiler asks for its own",
        ),
        (
            [Target("cuda", "sm_86", 32)],
            cuda("sm_80"),
            "Incompatible",
            "ArchMismatch",
            "arch sm_86 (cache) ≠ sm_80 (GPU)",
        ),
        (
            [Target("cuda", "sm_100a", 32)],
            cuda("sm_103"),
            "Incompatible",
            "ArchMismatch",
            "arch sm_100a (cache) ≠ sm_103 (GPU)",
        ),
        (
            [Target("hip", "gfx1100", 64)],
            hip("gfx1100", 32),
            "Incompatible",
            "WarpSizeMismatch",
            "warp size 64 (cache) ≠ 32 (GPU)",
        ),
        (
            [Target("cuda", "sm_90", 32, "NVIDIA H200")],
            cuda(),
            "Incompatible",
            "ProductMismatch",
            "product NVIDIA H200 (cache) ≠ NVIDIA H100 80GB HBM3 (GPU)",
        ),
        (
            [Target("cuda", "sm_90", 32, "NVIDIA H200")],
            cuda(product="NVIDIA H200"),
            "Compatible",
            "Match",
            "arch sm_90, warp size 32, product NVIDIA H200",
        ),
        (
            [Target("cuda", "sm_90", 32, "NVIDIA H200")],
            cuda(product=""),
            "Unknown",
            "UnknownProduct",
            "product NVIDIA H200 (cache) ≠ not told (GPU)",
        ),
        ([Target("hip", "gfx942", 64, "gfx942:sramecc+:xnack-")], hip(), "Compatible", "Match", None),
        (
            [],
            cuda(),
            "Unknown",
            "NoTarget",
            "the cache does not tell what it was compiled for",
        ),
        (
            [HOST],
            cuda(),
            "Unknown",
            "NoGPUTarget",
            "the cache holds code for x86_64 hosts, none for a GPU",
        ),
        ([HOST, GFX942], cuda(), "Incompatible", "BackendMismatch", None),
    ],
)
def test_the_verdict_on_one_gpu(
    targets: list[Target], gpu: GPU, verdict: str, reason: str, factor: str | None
) -> None:
    (found,) = judge(targets, [gpu])
    assert (found.verdict, found.reason) == (verdict, reason)
    assert found.gpu == gpu.uuid
    assert factor is None or found.factor == factor
    assert found.factor


@pytest.mark.parametrize("targets", [[], [SM_90], [HOST]])
def test_without_a_gpu_nothing_is_known(targets: list[Target]) -> None:
    (found,) = judge(targets, [])
    assert (found.gpu, found.product, found.verdict, found.reason) == (None, None, "Unknown", "NoGPU")


def test_a_mixed_host_has_a_verdict_per_gpu_and_one_match_is_enough() -> None:
    verdicts = judge([GFX942], [cuda(index=1), hip()])
    assert [v.verdict for v in verdicts] == [Verdict.INCOMPATIBLE, Verdict.COMPATIBLE]
    assert overall(verdicts) is verdicts[1]


def test_an_unknown_outweighs_a_no_and_among_equals_the_first_speaks() -> None:
    wanted = [Target("cuda", "sm_90", 32, "NVIDIA H200")]
    verdicts = judge(wanted, [cuda("sm_80"), cuda(product="", index=1), cuda("sm_75", index=2)])
    assert overall(verdicts) is verdicts[1]
    assert overall(verdicts[::2]) is verdicts[0]
    with pytest.raises(ValueError, match="no verdicts"):
        overall(())


def test_a_verdict_is_plain_json_in_the_words_of_the_reports() -> None:
    (found,) = judge([SM_90], [cuda()])
    assert msgspec.json.decode(msgspec.json.encode(found)) == {
        "gpu": "GPU-0",
        "product": "NVIDIA H100 80GB HBM3",
        "verdict": "Compatible",
        "reason": "Match",
        "factor": "arch sm_90, warp size 32",
    }


TARGETS = st.builds(
    Target,
    st.sampled_from(["cuda", "hip", "cpu"]),
    st.sampled_from(["sm_80", "sm_90", "sm_90a", "gfx942", "gfx1100", "x86_64", "?"]),
    st.sampled_from([0, 32, 64]),
    st.sampled_from([None, "NVIDIA H200", "NVIDIA H100 80GB HBM3"]),
)
GPUS = st.sampled_from([cuda(), cuda("sm_80", ""), hip(), hip("gfx1100", 32)])


@given(st.lists(TARGETS), GPUS, TARGETS)
def test_more_targets_never_turn_a_yes_into_a_no(targets: list[Target], gpu: GPU, more: Target) -> None:
    (before,) = judge(targets, [gpu])
    (after,) = judge([*targets, more], [gpu])
    if before.verdict is Verdict.COMPATIBLE:
        assert after.verdict is Verdict.COMPATIBLE
    assert (after.verdict is Verdict.COMPATIBLE) == (after.reason is Reason.MATCH)


@given(st.lists(TARGETS), GPUS)
def test_the_order_of_targets_changes_nothing(targets: list[Target], gpu: GPU) -> None:
    assert judge(targets, [gpu]) == judge(targets[::-1], [gpu])
