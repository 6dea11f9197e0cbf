"""Staging leaves kubelet enough disk, whatever images claim."""

import pytest

from gkm.agent.disk import UNKNOWN_BYTES, DiskBudget, DiskSpace
from gkm.agent.errors import DiskBudgetError

GIB = 1 << 30


def space(free: int, total: int = 100 * GIB, *, inodes: int = 50) -> DiskSpace:
    return DiskSpace(total, free, 100, inodes)


def allowance(free: int, budget: DiskBudget | None = None, **more: int | None) -> int:
    known = {"staged": 0, "under_way": 0, "wanted": GIB, **more}
    return (budget or DiskBudget(kept_free=0.2)).allowance(space(free), **known)  # type: ignore[arg-type]


def test_what_may_be_taken_ends_where_kubelets_part_begins() -> None:
    assert allowance(22 * GIB) == 2 * GIB
    with pytest.raises(DiskBudgetError, match=r"gkm\.node\.disk\.free in gkm-config"):
        allowance(20 * GIB)


def test_the_same_fault_reads_the_same_while_free_space_comes_and_goes() -> None:
    told = set()
    for free in (20 * GIB, 20 * GIB - 1, 7):
        with pytest.raises(DiskBudgetError) as refused:
            allowance(free)
        told.add(str(refused.value))
    assert len(told) == 1


def test_where_nothing_is_to_stay_free_the_disk_itself_is_named() -> None:
    budget = DiskBudget(kept_free=0.0)
    assert allowance(GIB, budget) == GIB
    for free in (GIB - 1, 0):
        with pytest.raises(DiskBudgetError, match="the node's disk has no room: free space there"):
            allowance(free, budget)


def test_trees_on_their_way_count_already() -> None:
    assert allowance(23 * GIB, under_way=2 * GIB) == GIB
    with pytest.raises(DiskBudgetError):
        allowance(22 * GIB, under_way=2 * GIB)


def test_an_unknown_size_is_taken_for_a_large_one() -> None:
    assert allowance(20 * GIB + UNKNOWN_BYTES, wanted=None) == UNKNOWN_BYTES
    with pytest.raises(DiskBudgetError):
        allowance(20 * GIB + UNKNOWN_BYTES - 1, wanted=None)


def test_all_trees_together_have_a_bound_of_their_own() -> None:
    budget = DiskBudget(kept_free=0.0, most_bytes=10 * GIB)
    assert allowance(90 * GIB, budget, staged=8 * GIB) == 2 * GIB
    with pytest.raises(DiskBudgetError, match=r"gkm\.node\.disk\.limit in gkm-config"):
        allowance(90 * GIB, budget, staged=8 * GIB, under_way=2 * GIB)


def test_inodes_are_kept_too_and_do_not_matter_where_they_are_unlimited() -> None:
    budget = DiskBudget(kept_free=0.0)
    with pytest.raises(DiskBudgetError, match="inodes"):
        budget.allowance(space(GIB, inodes=4), staged=0, under_way=0, wanted=1)
    btrfs = DiskSpace(GIB, GIB, 0, 0)
    assert budget.allowance(btrfs, staged=0, under_way=0, wanted=1) == GIB
